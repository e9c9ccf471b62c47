// Package memory proves that what comes in does not take more memory than there
// is for it, however much of it comes at once: what does not fit is refused
// before it is read or sent.
package memory
