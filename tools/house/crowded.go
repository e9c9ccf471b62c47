package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// mostMethods is how many methods a type of the product has at most.
	mostMethods = 25
	// mostFields is how many fields a struct has at most of the pipeline: what a stage hands
	// to the next, and what a rule is told.
	mostFields = 10
)

// crowded says what in a room has more, where it is one of the product.
func crowded(r *room) (complaints []string) {
	if top, _, _ := strings.Cut(r.name, "/"); slices.Contains([]string{"test", "tools", "proto"}, top) || strings.HasSuffix(r.name, "/storetest") {
		return nil
	}
	if in := r.name + "/"; strings.HasPrefix(in, "internal/call/") || strings.HasPrefix(in, "internal/rules/") {
		for _, at := range slices.Sorted(maps.Keys(r.fields)) {
			if n := r.fields[at]; n > mostFields {
				complaints = append(complaints, fmt.Sprintf("%s/%s: a struct has %d fields, want at most %d: some of them are made and read together, and have a name", r.name, at, n, mostFields))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.methods)) {
		if n := r.methods[name]; n > mostMethods {
			complaints = append(complaints, fmt.Sprintf("%s.%s has %d methods, want at most %d: a second thing, with a name and fields of its own, is in it", r.name, name, n, mostMethods))
		}
	}
	return complaints
}
