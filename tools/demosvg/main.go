// Command demosvg draws what the demo prints, some scenes of it, as a picture for
// the README:
//
//	sidecall demo | go run ./tools/demosvg > docs/demo.svg
//
// The picture has nothing in it that changes from one run to the next, so that
// tools/check-readme.sh can compare it with a run.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	scenes := flag.String("scenes", "3,4,7", "the scenes to draw, by number")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, strings.Split(*scenes, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "demosvg:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, scenes []string) error {
	lines, err := chosen(in, scenes)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, draw(lines))
	return err
}

// chosen are the lines of the scenes, and what of the sum at the end is always the same.
func chosen(in io.Reader, scenes []string) ([]string, error) {
	wanted := map[string]bool{}
	for _, scene := range scenes {
		wanted[scene] = true
	}
	lines, last, inside := []string{"$ sidecall demo"}, "", false
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		line := scanner.Text()
		if number, _, title := strings.Cut(line, ". "); title && number != "" && strings.Trim(number, "0123456789") == "" {
			if inside = wanted[number]; inside {
				delete(wanted, number)
				lines = append(lines, "")
			}
		}
		if inside && strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
		if line != "" {
			last = line
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	kept, _, whole := strings.Cut(last, " broken, ")
	if !whole || len(wanted) > 0 {
		return nil, errors.New("this is not the output of the demo, or not all of it")
	}
	return append(lines, "", kept+" broken"), nil
}
