// Package topology proves that no fault of a Redis, whatever its topology, makes
// a call happen twice or forget its result.
package topology
