package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestBlocksAreDescribedAndCarried(t *testing.T) {
	png := []byte{0x89, 'P', 'N', 'G'}
	in := []tool.Block{
		{Type: "image", MIMEType: "image/png", Data: png},
		{Type: "resource", URI: "file:///a\u202e.txt\n[forged]", MIMEType: "text/plain; charset=utf-8", Text: "one\x1b[31m\r\ntwo"},
		{Type: "resource", URI: "file:///b.bin", MIMEType: "garbage", Data: []byte{1, 2, 3}},
		{Type: "resource_link", URI: "https://example.com/\xff", Name: "a\tname"},
	}
	s := Shape(Input{Reply: tool.Reply{Text: []byte("See:"), Blocks: in}})
	want := "See:\n" +
		"[image image/png, 4 bytes: carried in blocks[0]]\n" +
		"[resource file:///a.txt [forged] text/plain, 13 bytes:]\none\ntwo\n" +
		"[resource file:///b.bin application/octet-stream, 3 bytes: carried in blocks[2]]\n" +
		`[resource_link "a name" https://example.com/` + "\uFFFD]"
	if s.Content != want {
		t.Errorf("content\n%s\nwant\n%s", s.Content, want)
	}
	wantBlocks := []tool.Block{
		{Type: "image", MIMEType: "image/png", Data: png, Size: 4},
		{Type: "resource", URI: "file:///a.txt [forged]", MIMEType: "text/plain", Text: "one\ntwo", Size: 13},
		{Type: "resource", URI: "file:///b.bin", MIMEType: "application/octet-stream", Data: []byte{1, 2, 3}, Size: 3},
		{Type: "resource_link", URI: "https://example.com/\uFFFD", Name: "a name"},
	}
	if diff := cmp.Diff(wantBlocks, s.Blocks); diff != "" {
		t.Error(diff)
	}
	if in[1].Text != "one\x1b[31m\r\ntwo" {
		t.Error("the reply was changed")
	}
}

func TestBlocksWithoutTextAreTheContent(t *testing.T) {
	s := Shape(Input{Reply: tool.Reply{Blocks: []tool.Block{{Type: "audio", MIMEType: "audio/wav", Data: make([]byte, 1500)}}}})
	if s.Content != "[audio audio/wav, 1.5 KB: carried in blocks[0]]" {
		t.Error(s.Content)
	}
}

func TestWhatBlocksCarryIsBounded(t *testing.T) {
	var blocks []tool.Block
	for range 5 {
		blocks = append(blocks, tool.Block{Type: "image", MIMEType: "image/png", Data: make([]byte, 1<<20)})
	}
	blocks = append(blocks, tool.Block{Type: "resource", URI: "file:///log", Text: strings.Repeat("a line\n", 1<<18)})
	s := Shape(Input{Reply: tool.Reply{Blocks: blocks}, Keep: true})
	carried := 0
	for i, b := range s.Blocks {
		carried += len(b.Data) + len(b.Text)
		if full := len(b.Data) > 0; full != strings.Contains(s.Content, fmt.Sprintf("carried in blocks[%d]", i)) {
			t.Errorf("block %d: content says otherwise: %.300s", i, s.Content)
		}
	}
	if carried > DefaultCarry || len(s.Blocks) != 6 || !strings.Contains(s.Content, "1.0 MB: too large to carry, kept for the program as "+s.BlockRefs[2]+"]") {
		t.Errorf("%d bytes in %d blocks: %.300s", carried, len(s.Blocks), s.Content)
	}
	kept, ok := Open(s.Kept, s.KeptComplete, "")
	if !ok || !bytes.Contains(kept.Data, []byte("a line\na line\n")) || s.Blocks[5].Text != "" {
		t.Error("a long text resource belongs to what is kept, not to what is carried")
	}
}

func TestTooManyBlocksAreCounted(t *testing.T) {
	s := Shape(Input{Reply: tool.Reply{Blocks: make([]tool.Block, maxBlocks+12)}})
	if len(s.Blocks) != maxBlocks || !strings.HasSuffix(s.Content, "\n[12 more blocks: left out, too many]") {
		t.Errorf("%d blocks: %s", len(s.Blocks), s.Content)
	}
}

func TestUntrustedBlocksStandInsideTheBoundary(t *testing.T) {
	s := Shape(Input{Untrusted: true, Reply: tool.Reply{Blocks: []tool.Block{{Type: "resource_link", Name: "call evil", URI: "x:y"}}}})
	if inside, ok := between(s.Content); !ok || inside != `[resource_link "call evil" x:y]` {
		t.Error(s.Content)
	}
}

func TestBinaryIsNotKept(t *testing.T) {
	s := Shape(Input{Reply: tool.Reply{Binary: "image/png", Size: 3 << 20, Cut: true}, Keep: true})
	if s.Truncated || s.Ref != "" || !strings.Contains(s.Content, "image/png, at least 3.1 MB") {
		t.Errorf("%+v", s)
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "0 bytes", 0: "0 bytes", 999: "999 bytes", 1000: "1.0 KB", 12_345: "12.3 KB", 999_949: "999.9 KB", 999_950: "1.0 MB",
		5_200_000: "5.2 MB", 7_000_000_000: "7.0 GB", 7_000_000_000_000: "7000.0 GB",
	} {
		if got := byteSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
