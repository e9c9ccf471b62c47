package output

import (
	"bytes"
	"cmp"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxBlocks bounds the blocks that one result carries and describes.
	maxBlocks = 64
	// maxName bounds a name or media type from the upstream, in characters.
	maxName = 120
	// maxURI bounds a URI from the upstream, in characters.
	maxURI = 1000
	// unknownMediaType says nothing.
	unknownMediaType = "application/octet-stream"
)

// describeBinary stands in content for a body that is no text.
func describeBinary(mediaType string, size int64, cut bool) string {
	atLeast := ""
	if cut {
		atLeast = "at least "
	}
	return fmt.Sprintf("[The call succeeded and returned binary data, which is not shown: %s, %s%s]",
		cleanMediaType(mediaType), atLeast, byteSize(size))
}

// describe appends what content says about the blocks, a line each, and the
// text of text resources.
func describe(dst []byte, blocks []tool.Block, refs []string, total int) []byte {
	for i, b := range blocks {
		if len(dst) > 0 {
			dst = append(dst, '\n')
		}
		dst = append(dst, describeBlock(b, i, refs[i])...)
		if b.Text != "" {
			dst = append(append(dst, '\n'), b.Text...)
		}
	}
	if more := total - len(blocks); more > 0 {
		dst = fmt.Appendf(dst, "\n[%d more blocks: left out, too many]", more)
	}
	return dst
}

func describeBlock(b tool.Block, i int, ref string) string {
	about := []string{b.Type}
	if b.Name != "" {
		about = append(about, strconv.Quote(b.Name))
	}
	if b.URI != "" {
		about = append(about, b.URI)
	}
	if b.MIMEType != "" {
		about = append(about, b.MIMEType)
	}
	line := "[" + strings.Join(about, " ")
	if b.Type == "resource_link" {
		if b.Size > 0 {
			line += ", " + byteSize(b.Size)
		}
		return line + "]"
	}
	line += ", " + byteSize(b.Size)
	switch {
	case b.Text != "":
		return line + ":]"
	case len(b.Data) > 0:
		return fmt.Sprintf("%s: carried in blocks[%d]]", line, i)
	case ref != "":
		return fmt.Sprintf("%s: too large to carry, kept for the program as %s]", line, ref)
	case b.Size > 0:
		return line + ": too large to carry]"
	default:
		return line + "]"
	}
}

// carry copies the blocks that fit into room bytes; of the others only what
// describes them, and where their data is kept. Everything but raw data is
// cleaned.
func carry(in *Input, space int64, keeper *keeper) (out []tool.Block, refs []string) {
	blocks := in.Reply.Blocks
	out = make([]tool.Block, 0, min(len(blocks), maxBlocks))
	refs = make([]string, cap(out))
	for i, b := range blocks[:cap(out)] {
		b.Size = max(b.Size, int64(len(b.Data)), int64(len(b.Text)))
		b.Type = in.cleanName(b.Type, maxName)
		b.Name = in.cleanName(b.Name, maxName)
		b.URI = in.cleanName(b.URI, maxURI)
		if in.Secrets != nil {
			b.Data = in.Secrets.Mask(b.Data)
		}
		if b.MIMEType != "" {
			b.MIMEType = cleanMediaType(b.MIMEType)
		}
		if space -= described(&b); int64(len(b.Data)) > space {
			refs[i] = keeper.keep(blockPart(i), cmp.Or(b.MIMEType, unknownMediaType), b.Data)
			b.Data = nil
		}
		space -= int64(len(b.Data))
		b.Text = string(in.withoutSecrets(clean([]byte(b.Text))))
		out = append(out, b)
	}
	return out, refs
}

// blockOverhead is what a block takes beside its texts and its data, encoded, in
// bytes, its handle included.
const blockOverhead = 128

// described is how many bytes describe a block.
func described(b *tool.Block) int64 {
	return int64(len(b.Type)+len(b.Name)+len(b.URI)+len(b.MIMEType)) + blockOverhead
}

// carried is how many bytes blocks take.
func carried(blocks []tool.Block) (n int64) {
	for i := range blocks {
		n += described(&blocks[i]) + int64(len(blocks[i].Data)+len(blocks[i].Text))
	}
	return n
}

// withoutLargeText takes the texts that do not fit into room bytes out of the
// blocks; content shows them, in full or cut.
func withoutLargeText(blocks []tool.Block, space int64) {
	for i := range blocks {
		space -= described(&blocks[i])
		if int64(len(blocks[i].Text)) > space {
			blocks[i].Text = ""
		}
		space -= int64(len(blocks[i].Data) + len(blocks[i].Text))
	}
}

// cleanName cleans what must stay on one line, and bounds it.
func (in *Input) cleanName(s string, most int) string {
	b := in.withoutSecrets(clean([]byte(s[:min(len(s), most*utf8.UTFMax)])))
	b = bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, b)
	return string(b[:clusterFloor(b, indexChar(b, most))])
}

// cleanMediaType returns the type without parameters, or the one that says
// nothing when s is none.
func cleanMediaType(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if err != nil || len(t) > maxName || !strings.Contains(t, "/") {
		return unknownMediaType
	}
	return Clean([]byte(t))
}

// byteSize writes a size in bytes, KB (1,000 bytes) or more.
func byteSize(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d bytes", max(n, 0))
	}
	size, unit := float64(n)/1000, 0
	for size >= 999.95 && unit < 2 {
		size /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %s", size, [...]string{"KB", "MB", "GB"}[unit])
}
