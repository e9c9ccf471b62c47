package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostMethods is how many methods a type of the product has at most.
const mostMethods = 25

// crowded says which types of a room have more, where it is one of the product.
func crowded(r *room) (complaints []string) {
	if top, _, _ := strings.Cut(r.name, "/"); slices.Contains([]string{"test", "tools", "proto"}, top) || strings.HasSuffix(r.name, "/storetest") {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.methods)) {
		if n := r.methods[name]; n > mostMethods {
			complaints = append(complaints, fmt.Sprintf("%s.%s has %d methods, want at most %d: a second thing, with a name and fields of its own, is in it", r.name, name, n, mostMethods))
		}
	}
	return complaints
}
