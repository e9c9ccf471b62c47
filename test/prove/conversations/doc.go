// Package conversations kills loops at every point of a conversation, and has another
// process go on with it: one result for each call, no second effect, and an array that
// a provider takes which refuses as the real ones do.
package conversations
