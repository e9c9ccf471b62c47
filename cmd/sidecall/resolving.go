package main

// resolving is a resolve command: what its flags say, and the sidecar.
type resolving struct {
	operating

	limit                  int
	id, conversation, turn string
	as                     string
	reason, content, by    string
	isError, verify, yes   bool
	args                   string
}
