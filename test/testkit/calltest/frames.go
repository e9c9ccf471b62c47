package calltest

import (
	"fmt"
	"runtime"
	"strings"
)

// module is how the names of this module's functions begin.
const module = "github.com/sidecall/sidecall/"

// Frames are the named functions of this module on the way from one of a name to
// where a goroutine stands, the outermost first: the goroutine that calls it, or the
// one whose stack has all the words. A function literal belongs to who wrote it, and a
// goroutine stands where it was started, whose starter waits for it.
func Frames(from string, words ...string) ([]string, error) {
	all := goroutines()
	at, err := find(all, words)
	if err != nil {
		return nil, err
	}
	var names []string
	for stack := at.frames; ; {
		for _, name := range stack {
			names = append(names, name)
			if strings.HasSuffix(name, "."+from) {
				return named(names), nil
			}
		}
		parent, known := all[at.parent]
		if !known {
			return nil, fmt.Errorf("no %s leads to %q", from, names)
		}
		if stack = startedBy(parent.frames, at.creator); stack == nil {
			return nil, fmt.Errorf("%s has started a goroutine and gone on", at.creator)
		}
		at = parent
	}
}

// named are those of the module among functions, the other way round.
func named(functions []string) (names []string) {
	for _, function := range functions {
		name, ours := strings.CutPrefix(function, module)
		if ours && !strings.Contains(name, "_test.") && !strings.HasPrefix(name, "test/testkit/") && !strings.Contains(name, ".func") {
			names = append([]string{name}, names...)
		}
	}
	return names
}

// startedBy is the part of a stack from a function outwards; nil when it is not in it.
func startedBy(stack []string, creator string) []string {
	for i, name := range stack {
		if name == creator {
			return stack[i:]
		}
	}
	return nil
}

// goroutine is one in a dump of all.
type goroutine struct {
	number          string
	frames          []string // the innermost first
	creator, parent string
	first           bool
	text            string
}

func find(all map[string]goroutine, words []string) (goroutine, error) {
	for _, g := range all {
		is := len(words) > 0 || g.first
		for _, word := range words {
			is = is && strings.Contains(g.text, word)
		}
		if is {
			return g, nil
		}
	}
	return goroutine{}, fmt.Errorf("no goroutine has %q in its stack", words)
}

// goroutines are all of the process, by number.
func goroutines() map[string]goroutine {
	text := make([]byte, 1<<20)
	for n := runtime.Stack(text, true); ; n = runtime.Stack(text, true) {
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	all := make(map[string]goroutine)
	for i, one := range strings.Split(string(text), "\n\n") {
		lines := strings.Split(one, "\n")
		number, _, _ := strings.Cut(strings.TrimPrefix(lines[0], "goroutine "), " ")
		g := goroutine{number: number, first: i == 0, text: one}
		for _, line := range lines[1:] {
			started, is := strings.CutPrefix(line, "created by ")
			switch {
			case is:
				g.creator, g.parent, _ = strings.Cut(started, " in goroutine ")
			case !strings.HasPrefix(line, "\t"):
				g.frames = append(g.frames, line[:max(strings.LastIndex(line, "("), 0)])
			}
		}
		all[number] = g
	}
	return all
}
