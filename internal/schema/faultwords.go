package schema

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// violation words the fault for the model.
func (f *fault) violation(toolName, raw string) tool.Error {
	v := tool.Error{Code: tool.CodeInvalidArgs, Field: f.field}
	number, isNumber := errors.AsType[*numberFault](f.err)
	again := ", then call " + orTheTool(toolName) + " again."
	if f.offset < 0 {
		v.Constraint = `type: "object"`
		v.Received = shown(f.value, nil)
		v.Hint = notAnObject(f.value) + again
		return v
	}
	f.locate(raw)
	line, column := position(raw, f.offset)
	where := fmt.Sprintf("line %d, column %d", line, column)
	v.Received = excerpt(raw, f.offset)
	switch {
	case f.name != "":
		v.Constraint = "an object may hold each name once; the second is at " + where
		v.Hint = "Send " + quoted(f.name) + " once, with the value that you mean" + again
	case errors.Is(f.err, errTooDeep), errors.Is(f.err, errTooMany):
		v.Constraint = "the arguments may have " + f.err.Error()
		v.Hint = "Send less at once" + again
	case isNumber:
		v.Constraint = "a number is " + number.what + " at " + where
		v.Hint = number.advice + again
	case f.notUTF8(raw):
		v.Constraint = fmt.Sprintf("the arguments must be valid UTF-8: byte 0x%02x at %s is not", raw[f.offset], where)
		v.Hint = `Write the characters there in UTF-8, or as escapes such as \u00e9` + again
	default:
		v.Constraint = "the arguments must be one JSON object: expected " + f.expected + " at " + where
		v.Hint = f.advice(raw) + again
	}
	return v
}

// locate finds the character at fault, and narrows the expectation when the
// fault is inside a string or a number.
func (f *fault) locate(raw string) {
	f.offset = min(f.offset, len(raw))
	if errors.Is(f.err, errEndOfInput) {
		f.expected = errEndOfInput.Error()
	}
	if errors.Is(f.err, io.ErrUnexpectedEOF) {
		f.offset = len(raw)
	}
	if strings.Contains(f.err.Error(), "in literal") {
		f.offset = wordStart(raw, f.offset)
	}
	inString := strings.Contains(f.err.Error(), "in string")
	if !inString { // the decoder may point before blanks and the separator
		f.offset += blanks(raw[f.offset:])
		if after := raw[f.offset:]; f.separated && (strings.HasPrefix(after, ",") || strings.HasPrefix(after, ":")) {
			f.offset += 1 + blanks(after[1:])
		}
	}
	if f.offset < len(raw) {
		f.found, _ = utf8.DecodeRuneInString(raw[f.offset:])
	}
	switch {
	case f.offset < len(raw) && loneSurrogate.MatchString(raw[f.offset:]):
		f.expected = "both halves of a surrogate pair"
	case inString || errors.Is(f.err, io.ErrUnexpectedEOF) && f.openString:
		f.expected = stringExpectation(f.found, f.offset == len(raw))
	case strings.Contains(f.err.Error(), "in number"):
		f.expected = "a digit"
	}
}

// notUTF8 reports whether the fault is a byte that belongs to no character.
func (f *fault) notUTF8(raw string) bool {
	r, size := utf8.DecodeRuneInString(raw[f.offset:])
	return r == utf8.RuneError && size == 1
}

// loneSurrogate is the escape of half a character beyond U+FFFF (RFC 8259
// section 7). Doubled, its backslash would stand in the text.
var loneSurrogate = regexp.MustCompile(`^\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// wordStart is where the word begins that stands around offset. The decoder takes a
// word for true, false or null by its first letter: what it lacks of them is
// seldom what was meant.
func wordStart(text string, offset int) int {
	return len(strings.TrimRight(text[:offset], "abcdefghijklmnopqrstuvwxyz"))
}

// blanks is the length of the white space that text begins with.
func blanks(text string) int { return len(text) - len(strings.TrimLeft(text, " \t\r\n")) }

func stringExpectation(found rune, end bool) string {
	switch {
	case end:
		return `the closing " of a string`
	case found < ' ':
		return `no line break or other control character inside a string, but its escape such as \n or \t`
	case found == '\\':
		return `a valid escape such as \", \\, \n or \u00e9`
	default:
		return "valid UTF-8"
	}
}

// advice says what to change, judging by what stands at the fault. The
// mistakes are those that models make.
func (f *fault) advice(raw string) string {
	rest := strings.ToLower(raw[f.offset:])
	switch {
	case errors.Is(f.err, errEndOfInput):
		return "Remove everything after the closing brace of the first object"
	case f.found == utf8.RuneError && f.offset == len(raw):
		return "Send the arguments complete: the text ends before the object does"
	case strings.HasPrefix(rest, "```"):
		return "Send the JSON object alone, without a code fence"
	case strings.ContainsRune("'‘’“”", f.found):
		return "Put names and strings in straight double quotes"
	case f.found == '}' || f.found == ']':
		if f.expected == `"," or "}"` || f.expected == `"," or "]"` {
			return "Close every bracket with its own kind"
		}
		return "Remove the comma before the closing bracket"
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"), f.found == '#':
		return "Remove the comment, JSON has none"
	case strings.Contains(f.expected, "a name"):
		return "Put the name in double quotes"
	case strings.HasPrefix(rest, "true"), strings.HasPrefix(rest, "false"), strings.HasPrefix(rest, "none"), strings.HasPrefix(rest, "null"):
		return "Write true, false and null in lower case"
	case strings.HasPrefix(rest, "nan"), strings.HasPrefix(rest, "undefined"), strings.HasPrefix(rest, "infinity"):
		return "Send a number or null: JSON has no NaN, Infinity or undefined"
	case unicode.IsLetter(f.found) && strings.HasPrefix(f.expected, "a value"):
		return "Put text in double quotes: only numbers, true, false and null stand without"
	case f.found < ' ':
		return `Escape the control character, a line break as \n`
	case f.found == '\\':
		return escapeAdvice(raw[f.offset:])
	case strings.HasPrefix(f.expected, "a value") && strings.ContainsRune(".+0123456789", f.found), f.expected == "a digit":
		return "Write the number as JSON does, such as 0.5 or 10, without a leading + or 0"
	default:
		return "Write " + f.expected + " there"
	}
}

// escapeAdvice is for an escape, with which text begins, that is none.
func escapeAdvice(text string) string {
	half := loneSurrogate.FindString(text)
	switch {
	case half != "":
		return `Write the character itself, or both halves of it as in \ud83d\ude00, or leave the lone half ` + half + ` out`
	case strings.HasPrefix(text, `\u`):
		return `Write a backslash inside a string as \\, or \u with four hex digits`
	default:
		return `Write a backslash inside a string as \\`
	}
}

func notAnObject(v any) string {
	switch v := v.(type) {
	case string:
		if _, f := parseObject(v); f == nil && strings.TrimSpace(v) != "" {
			return "Send the JSON object itself, not a string that contains it"
		}
	case []any:
		return "Send one JSON object with the arguments by name, not an array"
	}
	return `Send one JSON object with the arguments by name, such as {"name": "value"}`
}

func orTheTool(name string) string {
	if name == "" {
		return "the tool"
	}
	return name
}

// position is the line and the column, both from 1, in characters.
func position(text string, offset int) (line, column int) {
	before := text[:offset]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// excerpt is the text around offset, about 40 characters each side.
func excerpt(text string, offset int) string {
	const reach = 40
	from, to := offset, offset
	for n := 0; n < reach && from > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
	}
	for n := 0; n < reach && to < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[to:])
		to += size
	}
	out := text[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return strings.ToValidUTF8(out, "\uFFFD")
}
