// Package definition is about what a backend says of the tools that it declares
// itself: names, descriptions, schemas. A model reads it before every call, so
// whoever writes it writes into the prompt.
//
// Clean makes it fit to be shown: nothing in it that a reader cannot see, nothing
// that looks like one of our own tags, no secrets, no text without end. It cannot
// tell a good sentence from a bad one. That is what Pins are for: they remember, in
// a file, the hash of each definition as it was first seen. A tool that says
// something else later is told to the operator and, where the operator wants it so,
// not called until somebody has looked.
package definition
