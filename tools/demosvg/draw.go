package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const (
	columns    = 104 // characters of a row
	rowWidth   = 815 // of so many, in a font of 13 pixels
	rowHeight  = 18
	margin     = 16
	indent     = "          " // under the first row of a long line
	foreground = "#d0d7de"
)

// colours of a line, by how it begins.
var colours = []struct{ prefix, fill string }{
	{"$ ", "#ffffff"},
	{"   call ", "#79c0ff"},
	{"   model ", foreground},
	{"   truth ", "#e3b341"},
	{"   kept ", "#56d364"},
	{"   BROKEN ", "#ff7b72"},
	{"   ", foreground},
	{"", "#ffffff"},
}

// draw is the picture of a terminal that shows lines.
func draw(lines []string) string {
	var rows strings.Builder
	y := margin
	for _, line := range lines {
		for _, row := range wrapped(line) {
			y += rowHeight
			if row != "" {
				fmt.Fprintf(&rows, "<text x=\"%d\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\">%s</text>\n", margin, y, colour(line), escaped(row))
			}
		}
	}
	width, height := 2*margin+rowWidth, y+margin+rowHeight/2
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="What sidecall demo prints">
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13">
%s</g>
</svg>
`, width, height, width, height, rows.String())
}

// wrapped cuts a line into rows, at a space where there is one late enough.
func wrapped(line string) []string {
	rest := []rune(line)
	var rows []string
	for len(rest) > columns {
		at := columns
		for i := columns; i > columns*3/4; i-- {
			if rest[i] == ' ' || rest[i-1] == ',' {
				at = i
				break
			}
		}
		rows = append(rows, string(rest[:at]))
		rest = append([]rune(indent), []rune(strings.TrimLeft(string(rest[at:]), " "))...)
	}
	return append(rows, string(rest))
}

func colour(line string) string {
	for _, c := range colours {
		if strings.HasPrefix(line, c.prefix) {
			return c.fill
		}
	}
	return foreground
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
