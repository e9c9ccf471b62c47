// Command house checks what the compiler does not see of how the house is built: that
// in every room the files stand in an order in which few arrows run upward, that no type
// of the product has too many methods and no struct of the pipeline too many fields, and
// that every test file has a test. It prints the figures of each room.
//
//	go run ./tools/house          the check, as in make lint
//	go run ./tools/house -arrows  which arrows run upward, beside it
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// mostUpward is how many of a hundred arrows of a room run upward; fewer do.
const mostUpward = 8

func main() {
	arrows := flag.Bool("arrows", false, "show the arrows that run upward")
	flag.Parse()
	packages, err := rooms("./...")
	if err != nil {
		fail(err)
	}
	bad := false
	fmt.Printf("%6s %7s %7s %5s  %s\n", "files", "arrows", "upward", "", "package, then room")
	all := map[string]*figures{} // by room
	for _, p := range packages {
		for _, complaint := range crowded(&p) {
			bad = true
			fmt.Fprintln(os.Stderr, "house:", complaint)
		}
		if len(p.files) < 2 {
			continue // no arrows
		}
		o := p.order()
		room := roomIn(p.name)
		if all[room] == nil {
			all[room] = &figures{}
		}
		all[room].add(len(p.files), len(p.arrows), o.upward)
		fmt.Printf("%6d %7d %7d %4.0f%%  %s\n", len(p.files), len(p.arrows), len(o.upward), share(len(o.upward), len(p.arrows)), p.name)
		for _, a := range o.upward {
			if line := fmt.Sprintf("%31s%s: %s", "", a, strings.Join(p.uses[a], ", ")); *arrows {
				fmt.Println(line)
			} else {
				all[room].lines = append(all[room].lines, line)
			}
		}
	}
	fmt.Println()
	for _, room := range slices.Sorted(maps.Keys(all)) {
		f := all[room]
		fmt.Printf("%6d %7d %7d %4.0f%%  %s\n", f.files, f.arrows, f.upward, share(f.upward, f.arrows), room)
		if complaint := judge(f.upward, f.arrows); complaint != "" {
			bad = true
			fmt.Println(strings.Join(f.lines, "\n"))
			fmt.Fprintf(os.Stderr, "house: in %s %s\n", room, complaint)
		}
	}
	idle, err := testless(".")
	if err != nil {
		fail(err)
	}
	for _, name := range idle {
		bad = true
		fmt.Fprintf(os.Stderr, "house: %s has no test: let it stand in the file whose tests use it, or where tests share it (testkit)\n", name)
	}
	if bad {
		os.Exit(1)
	}
}

// roomIn is the room that a package is in: a directory of the plan.
func roomIn(name string) string {
	room, below, _ := strings.Cut(name, "/")
	if room == "internal" || room == "test" {
		below, _, _ = strings.Cut(below, "/")
		return room + "/" + below
	}
	return room
}

// figures are those of a room: a directory of the plan, with the packages below it.
// Between packages no arrow runs upward: they would import each other.
type figures struct {
	files, arrows, upward int
	lines                 []string
}

func (f *figures) add(files, arrows int, upward []arrow) {
	f.files, f.arrows, f.upward = f.files+files, f.arrows+arrows, f.upward+len(upward)
}

// judge says what is wrong with the arrows of a room; empty when nothing is.
func judge(upward, arrows int) string {
	if share(upward, arrows) < mostUpward {
		return ""
	}
	return fmt.Sprintf("%d of %d arrows between files run upward, want less than %d %%: let what a file needs of one above it stand below both", upward, arrows, mostUpward)
}

// share is how many of a hundred.
func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "house:", err)
	os.Exit(1)
}
