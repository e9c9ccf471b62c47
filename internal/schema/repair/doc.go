// Package repair is a program that repairs malformed calls by nothing but the five
// fields of their errors: Program is given the rejected arguments and the violations,
// and has never seen the schema.
package repair
