package output

import (
	"fmt"
	"unicode/utf8"
)

// Strategies of cutting, as in the config file.
const (
	Auto     = "auto"
	JSON     = "json"
	Head     = "head"
	Tail     = "tail"
	HeadTail = "head_tail"
)

// minSide is the least that head_tail shows on each side, in characters; where
// there is less room, the head alone is more use.
const minSide = 24

// textCut is what is shown of a text.
type textCut struct {
	strategy   string
	head, tail []byte
	gap        string // stands between head and tail
	shown      int    // characters of the text
	next       int    // character at which reading on makes sense
}

// cutText cuts text, which has total characters, to at most room characters,
// the gap included. The text is cut even where it would fit: the caller has
// found that there is more of it.
func cutText(text []byte, total, space int, strategy string) textCut {
	space = min(space, total)
	switch strategy {
	case Head:
		return cutHead(text, space)
	case Tail:
		tail := text[clusterCeil(text, lastChars(text, space)):]
		return textCut{strategy: Tail, tail: tail, shown: countChars(tail)}
	}
	if space == total {
		c := cutHead(text, space)
		c.strategy = HeadTail
		return c
	}
	widest := gap(total)
	if space < utf8.RuneCountInString(widest)+2*minSide {
		return cutHead(text, space)
	}
	space -= utf8.RuneCountInString(widest)
	c := cutHead(text, space/2)
	c.strategy = HeadTail
	c.tail = text[clusterCeil(text, lastChars(text, space-space/2)):]
	c.shown += countChars(c.tail)
	c.gap = gap(total - c.shown)
	return c
}

func cutHead(text []byte, space int) textCut {
	head := text[:clusterFloor(text, indexChar(text, space))]
	shown := countChars(head)
	return textCut{strategy: Head, head: head, shown: shown, next: shown}
}

func gap(left int) string {
	return fmt.Sprintf("\n[… %d characters left out here …]\n", left)
}
