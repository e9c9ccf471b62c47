// Package demo proves what the README promises of the demo: that it shows all in
// less than fifteen seconds.
package demo
