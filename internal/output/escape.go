package output

const esc = 0x1B

// Terminal sequences are removed whole (ECMA-48). One that does not end is not
// allowed to swallow what follows: only its introducer goes, and the rest is
// shown as text. Each scan stops where the next sequence starts, so that any
// number of open ones costs one pass.

// skipEscape returns the index behind the terminal sequence that starts with
// the ESC at i.
func skipEscape(b []byte, i int) int {
	i++
	if i == len(b) {
		return i
	}
	switch c := b[i]; {
	case c == '[', c == ']', c == 'P', c == 'X', c == '^', c == '_':
		return skipSequence(b, i+1, c)
	case c >= 0x20 && c <= 0x2F: // ESC ( B and the like
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2F {
			i++
		}
		if i < len(b) && b[i] >= 0x30 && b[i] <= 0x7E {
			i++
		}
		return i
	case c >= 0x30 && c <= 0x7E: // ESC 7, ESC c
		return i + 1
	default:
		return i
	}
}

// skipC1 is skipEscape for the 8-bit introducer whose two bytes stand before i:
// U+0080+n is ESC followed by 0x40+n.
func skipC1(b []byte, i int) int { return skipSequence(b, i, b[i-1]-0x40) }

// skipSequence returns the index behind a sequence whose introducer ended at i.
func skipSequence(b []byte, i int, introducer byte) int {
	if introducer == '[' {
		return skipCSI(b, i)
	}
	osc := introducer == ']'
	for j := i; j < len(b); j++ {
		switch c := b[j]; {
		case c == 0x07 && osc:
			return j + 1
		case c == esc:
			if j+1 < len(b) && b[j+1] == '\\' {
				return j + 2
			}
			return i
		case c == 0xC2 && j+1 < len(b) && b[j+1] < 0xA0: // another C1 control
			if b[j+1] == 0x9C {
				return j + 2
			}
			return i
		case c < 0x20 && osc:
			return i
		}
	}
	return i
}

// skipCSI skips parameters, intermediates and the final byte.
func skipCSI(b []byte, i int) int {
	for i < len(b) && b[i] >= 0x30 && b[i] <= 0x3F {
		i++
	}
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2F {
		i++
	}
	if i < len(b) && b[i] >= 0x40 && b[i] <= 0x7E {
		i++
	}
	return i
}
