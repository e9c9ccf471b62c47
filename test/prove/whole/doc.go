// Package whole runs as a whole the tables of end-to-end tests of which make test
// runs a part: see harness.Whole.
package whole
