package guard

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words is which words a call's texts are made of, in whatever order, and by what else
// its arguments are told apart. 0 is like no other.
//
// The lower bits have one for each word, so of two texts the share of the words that they
// have in common can be told; the others are of all that is no common word.
type Words uint64

const (
	wordBits  = 48
	wordsMask = 1<<wordBits - 1
	// mostWords is how long a text may be, in words, to be one that is put in other
	// words: a question, and no program or document, of which a new version has most of
	// the words of the last.
	mostWords = 20
	// mostText bounds what is looked at, in bytes.
	mostText = 400
)

// WordsOf looks at the decoded arguments of a call.
//
// Numbers, names and everything with a digit in it tell two calls apart, however much
// else is the same: "is A-17 paid" and "is A-18 paid" are two questions. A name is a word
// with a capital letter, but for the first of a text.
func WordsOf(args any) Words {
	w := wordsIn{left: mostText}
	w.add("", args, 0)
	if w.words == 0 || w.count > mostWords || w.left < 0 {
		return 0
	}
	return Words(w.words&wordsMask | w.rest<<wordBits)
}

// like reports that one of two calls has all words of the other and few beside them, and
// all else the same. Where a word stands in the place of another it may be a name: that is
// another question.
func (w Words) like(other Words) bool {
	if w == 0 || w>>wordBits != other>>wordBits {
		return false
	}
	both, either := bits.OnesCount64(uint64(w&other&wordsMask)), bits.OnesCount64(uint64((w|other)&wordsMask))
	return (w&other&wordsMask == w&wordsMask || w&other&wordsMask == other&wordsMask) && 10*both >= 7*either
}

// wordsIn collects them.
type wordsIn struct {
	words, rest uint64
	count, left int
}

func (w *wordsIn) add(path string, v any, depth int) {
	if w.left -= len(path); w.left < 0 || depth > maxDepth {
		w.left = -1
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			w.add(path+"."+name, member, depth+1)
		}
	case []any:
		for _, item := range v {
			w.add(path, item, depth+1)
		}
	case string:
		if w.left -= len(v); w.left >= 0 {
			w.rest += hashed(path)
			w.text(path, v)
		}
	case json.Number:
		w.other(path, string(v))
	default:
		w.other(path, fmt.Sprint(v))
	}
}

// other takes something by which calls are told apart. The order makes no difference.
func (w *wordsIn) other(path, text string) { w.rest += hashed(path + "\x00" + text) }

func (w *wordsIn) text(path, text string) {
	words := strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	for i, word := range words {
		first, _ := utf8.DecodeRuneInString(word)
		if strings.IndexFunc(word, unicode.IsDigit) >= 0 || i > 0 && unicode.IsUpper(first) {
			w.other(path, word)
			continue
		}
		w.count++
		w.words |= 1 << (hashed(path+"\x00"+strings.ToLower(word)) % wordBits)
	}
	// What is no letter may be all that there is: an operator, a path, a flag.
	marks := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsSpace(c) })
	slices.Sort(marks)
	w.other(path, strings.Trim(strings.Join(marks, " "), "?!., "))
}

func hashed(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}
