package output

// Walking through JSON that is known to be valid. There is no tree: a result of
// 10 MiB may hold millions of values, of which some hundreds are shown.

// measure returns the end of the value at i, and how many characters it has
// without the white space outside of strings.
func measure(b []byte, i int) (end, chars int) {
	depth := 0
	for i < len(b) {
		start := i
		switch c := b[i]; c {
		case ' ', '\n', '\t', '\r':
			i++
			continue
		case '"':
			i = skipString(b, i)
			chars += countChars(b[start:i])
		case '{', '[':
			depth++
			i++
			chars++
		case '}', ']':
			depth--
			i++
			chars++
		case ',', ':':
			i++
			chars++
		default:
			i = skipWord(b, i)
			chars += i - start
		}
		if depth == 0 {
			break
		}
	}
	return i, chars
}

// skipWord returns the index behind a number, true, false or null.
func skipWord(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', ':', ']', '}', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
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
	for i := 0; i < len(b); {
		start := i
		switch b[i] {
		case ' ', '\n', '\t', '\r':
			i++
			continue
		case '"':
			i = skipString(b, i)
		default:
			i++
		}
		dst = append(dst, b[start:i]...)
	}
	return dst
}
