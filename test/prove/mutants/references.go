package mutants

// The files of outputs by reference.
const (
	referenceFile   = "internal/call/reference.go"
	dereferenceFile = "internal/call/dereference.go"
	taintFile       = "internal/rules/taint/taint.go"
	resultKept      = "internal/call/result/kept.go"
	pickFile        = "internal/output/pick.go"
)

// references: what stands for an output is the conversation's own, is told by nobody, and
// is the same call later.
func references() []Mutant {
	const pkg = "./internal/call"
	return []Mutant{
		one("references: another conversation's output is read", resultKept, "if !output.IsOf(ref, of) {", "if false {", test(pkg, "TestAReferenceToAnOutputOfOthers")),
		short(one("references: a violation tells the value", referenceFile, "	for i := range violations {\n		r.hide", "	for i := range violations[:0] {\n		r.hide", test(pkg, "TestNoErrorTellsWhatAReferenceBrings"))),
		one("references: a violation names members of the output", referenceFile, "v.Field = schema.Field(r.sent, path[:n]...)", "_ = n", test(pkg, "TestNoErrorTellsWhatAReferenceBrings")),
		one("references: corrected arguments tell the value", "internal/call/arguments.go", "if refs == nil { // else", "if true { // else", test(pkg, "TestNoErrorTellsWhatAReferenceBrings")),
		one("references: a failure tells the value", "internal/call/run.go", "if explain.Ours(failure) {", "if false {", test(pkg, "TestAFailureTellsOfTheReference")),
		one("references: what was tried before tells the value", "internal/call/arguments.go", "!c.now.Refers { // else", "true { // else", test(pkg, "TestAFailureTellsOfTheReference")),
		short(one("references: a call is what its references bring", "internal/call/arguments.go", "	if refs != nil {\n		c.fingerprint", "	if false {\n		c.fingerprint", test(pkg, "TestACallThatRefersIsKnownAfterItsOutput"))),
		one("references: a record of the value is one of the reference", "internal/call/recorded.go", "return !r.now.Refers && r.now.Args", "return r.now.Args", test(pkg, "TestACallThatRefersIsKnownAfterItsOutput")),
		one("references: a look asks with what is lost", "internal/call/verify.go", "c.route.Verification.Program.ReadsArgs() && !c.now.Checked ||", "", test(pkg, "TestNoLookAsksWithAReference")),
		one("references: nothing is tainted", taintFile, "return now.Borrowed && ", "return false && ", test(pkg, "TestAReferenceTaints")),
		one("references: a sensitive tool takes what is tainted", taintFile, "heard.Unknown, r.borrows(now), r.taintedBy", "heard.Unknown, r.taintedBy", test(pkg, "TestAReferenceTaints")),
		one("references: a replay taints nothing", taintFile, "output.Refers(r.call.Arguments) && r.foreign(output.ToolName) || ", "", test(pkg, "TestAReferenceTaints")),
		one("references: any number of them", referenceFile, "len(f.all) > maxReferences", "false", test(pkg, "TestReferencesThatAreRefused")),
		one("references: any number of bytes", dereferenceFile, "r.refs.bytes > maxReferred {", "false {", test(pkg, "TestReferencesThatAreRefused")),
		one("references: any number of values", dereferenceFile, "if r.values += n; err != nil || r.values > schema.MaxValues {", "_ = n\n\tif err != nil {", test(pkg, "TestReferencesThatAreRefused")),
		one("references: the end of a text is not looked at", pickFile, "; errors.Is(err, io.EOF) {", "; err == nil || errors.Is(err, io.EOF) {", test("./internal/output", "TestAPathLeadsNowhere")),
	}
}
