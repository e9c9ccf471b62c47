package output

// Walking through JSON that is known to be valid. There is no tree: a result of
// 10 MiB may hold millions of values, of which some hundreds are shown.

// kinds of bytes outside of strings.
const (
	plainByte = iota
	spaceByte
	quoteByte
	openByte
	closeByte
)

var kinds = [256]uint8{
	' ': spaceByte, '\n': spaceByte, '\t': spaceByte, '\r': spaceByte,
	'"': quoteByte, '{': openByte, '[': openByte, '}': closeByte, ']': closeByte,
}

// measure returns the end of the value at i, and how many characters it has
// without the white space outside of strings.
func measure(b []byte, i int) (end, chars int) {
	switch kinds[b[i]] {
	case quoteByte:
		end = skipString(b, i)
		return end, countChars(b[i:end])
	case plainByte:
		end = skipWord(b, i)
		return end, end - i
	}
	for depth := 0; i < len(b); {
		switch kinds[b[i]] {
		case plainByte:
			chars++
			i++
		case spaceByte:
			i++
		case quoteByte:
			start := i
			i = skipString(b, i)
			chars += countChars(b[start:i])
		case openByte:
			depth++
			chars++
			i++
		case closeByte:
			depth--
			chars++
			i++
			if depth == 0 {
				return i, chars
			}
		}
	}
	return i, chars
}

// skipWord returns the index behind a number, true, false or null.
func skipWord(b []byte, i int) int {
	for i < len(b) && b[i] != ',' && kinds[b[i]] == plainByte {
		i++
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && kinds[b[i]] == spaceByte {
		i++
	}
	return i
}

// split lists the parts of an object or array: as many of the first ones as
// could be shown in room characters, and how many there are in all.
func split(b []byte, room int) (parts []part, total int) {
	object := b[0] == '{'
	most := room / 2 // "1,"
	if object {
		most = room / 5 // "":1,
	}
	for i := skipSpace(b, 1); b[i] != ']' && b[i] != '}'; i = skipSpace(b, i) {
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
		var p part
		if object {
			end := skipString(b, i)
			p.key, p.keyChars = b[i:end], countChars(b[i:end])
			i = skipSpace(b, skipSpace(b, end)+1)
		}
		end, chars := measure(b, i)
		p.value, p.chars = b[i:end], chars
		i = end
		if total++; len(parts) < most {
			parts = append(parts, p)
		}
	}
	return parts, total
}

// appendCompact appends a value without the white space outside of strings.
func appendCompact(dst, b []byte) []byte {
	start := 0
	for i := 0; i < len(b); {
		switch kinds[b[i]] {
		case quoteByte:
			i = skipString(b, i)
		case spaceByte:
			dst = append(dst, b[start:i]...)
			i = skipSpace(b, i)
			start = i
		default:
			i++
		}
	}
	return append(dst, b[start:]...)
}

// part is a member of an object or an item of an array, by its place in the
// source.
type part struct {
	key   []byte // with quotes; nil in an array
	value []byte
	// Characters, without white space outside of strings.
	keyChars, chars int
}
