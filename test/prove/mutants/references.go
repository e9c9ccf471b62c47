package mutants

// references: what stands for an output is the conversation's own, is told by nobody, and
// is the same call later.
func references() []Mutant {
	const pkg = "./internal/call"
	return []Mutant{
		never("references: another conversation's output is read", "internal/call/result.Outputs.Read", "output", test(pkg, "TestAReferenceToAnOutputOfOthers")),
		short(instead("references: a violation tells the value", "internal/call.references.conceal", "violations {", "violations[:0] {", test(pkg, "TestNoErrorTellsWhatAReferenceBrings"))),
		instead("references: a violation names members of the output", "internal/call.references.hide", "v.Field = schema.Field(r.sent, path[:n]...)", "_ = n", test(pkg, "TestNoErrorTellsWhatAReferenceBrings")),
		always("references: corrected arguments tell the value", "internal/call.resolved.invalid", "refs", test(pkg, "TestNoErrorTellsWhatAReferenceBrings")),
		never("references: a failure tells the value", "internal/call.failing.explained", "explain", test(pkg, "TestAFailureTellsOfTheReference")),
		always("references: what was tried before tells the value", "internal/call.arguments.known", "Refers", test(pkg, "TestAFailureTellsOfTheReference")),
		short(never("references: a call is what its references bring", "internal/call.resolved.validate", "refs", test(pkg, "TestACallThatRefersIsKnownAfterItsOutput"))),
		always("references: a record of the value is one of the reference", "internal/call.recorded.isOf", "Refers", test(pkg, "TestACallThatRefersIsKnownAfterItsOutput")),
		never("references: a look asks with what is lost", "internal/call.Executor.lookAgain", "Checked", test(pkg, "TestNoLookAsksWithAReference")),
		never("references: nothing is tainted", "internal/rules/taint.rule.borrows", "Borrowed", test(pkg, "TestAReferenceTaints")),
		instead("references: a sensitive tool takes what is tainted", "internal/rules/taint.rule.Hear", "borrows(now), r.taintedBy", "taintedBy", test(pkg, "TestAReferenceTaints")),
		never("references: a replay taints nothing", "internal/rules/taint.rule.quotes", "ToolName", test(pkg, "TestAReferenceTaints")),
		never("references: any number of them", "internal/call.finder.add", "maxReferences", test(pkg, "TestReferencesThatAreRefused")),
		never("references: any number of bytes", "internal/call.reader.bring", "maxReferred", test(pkg, "TestReferencesThatAreRefused")),
		instead("references: any number of values", "internal/call.reader.picked", "if r.values += n; err != nil || r.values > schema.MaxValues", "_ = n\n\tif err != nil", test(pkg, "TestReferencesThatAreRefused")),
		instead("references: the end of a text is not looked at", "internal/output.Pick", "errors", "err == nil || errors", test("./internal/output", "TestAPathLeadsNowhere")),
	}
}
