package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// image is a block with data of its own.
func image(size int, with byte) tool.Block {
	return tool.Block{Type: "image", MIMEType: "image/png", Data: bytes.Repeat([]byte{with}, size)}
}

// What a result has no room for is kept, to the byte, and found under its handle.
func TestWhatDoesNotFitIsKept(t *testing.T) {
	blocks := []tool.Block{image(2_900_000, 1), image(2_900_000, 2), image(10, 3), image(3<<20, 4)}
	for name, text := range map[string]string{"the text is whole": "four images", "the text is cut": strings.Repeat("a line\n", 5000)} {
		t.Run(name, func(t *testing.T) {
			s := Shape(Input{Reply: tool.Reply{Text: []byte(text), Blocks: blocks}, Keep: true})
			for i, carried := range []bool{true, false, true, false} {
				b := s.Blocks[i]
				if carried {
					if !bytes.Equal(b.Data, blocks[i].Data) || s.BlockRefs[i] != "" {
						t.Errorf("block %d: %d bytes, handle %q", i, len(b.Data), s.BlockRefs[i])
					}
					continue
				}
				ref, part := SplitRef(s.BlockRefs[i])
				kept, ok := Open(s.Kept, s.KeptComplete, part)
				if len(b.Data) > 0 || b.Size != int64(len(blocks[i].Data)) || ref != s.Ref || !ok || !kept.Complete ||
					kept.MediaType != "image/png" || !bytes.Equal(kept.Data, blocks[i].Data) {
					t.Errorf("block %d: handle %q, kept %v: %d bytes of %q", i, s.BlockRefs[i], ok, len(kept.Data), kept.MediaType)
				}
				if !strings.Contains(string(keptText(t, &s))+s.Content, s.BlockRefs[i]) {
					t.Errorf("block %d: nobody is told of %s", i, s.BlockRefs[i])
				}
			}
			if _, ok := Open(s.Kept, true, "3"); ok {
				t.Error("what is carried is kept too")
			}
			if cut := strings.HasPrefix(name, "the text is cut"); s.Truncated != cut || cut && !bytes.HasPrefix(keptText(t, &s), []byte(text)) {
				t.Errorf("truncated %v", s.Truncated)
			}
		})
	}
}

// keptText is the text among what is kept; nothing when it is not.
func keptText(t *testing.T, s *Shaped) []byte {
	t.Helper()
	kept, ok := Open(s.Kept, s.KeptComplete, "")
	if ok && kept.MediaType != "" {
		t.Errorf("the text is %q", kept.MediaType)
	}
	return kept.Data
}

func TestAStructuredResultThatDoesNotFitIsKept(t *testing.T) {
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", DefaultCarry) + `"}`)
	s := Shape(Input{Reply: tool.Reply{Text: []byte("see structured"), Structured: large}, Keep: true})
	_, part := SplitRef(s.StructuredRef)
	kept, ok := Open(s.Kept, s.KeptComplete, part)
	if s.StructuredJSON != "" || !ok || kept.MediaType != "application/json" || !bytes.Equal(kept.Data, large) {
		t.Errorf("handle %q, kept %v: %d bytes", s.StructuredRef, ok, len(kept.Data))
	}
}

// What cannot be kept is left out, and no handle is made up.
func TestWhatCannotBeKeptHasNoHandle(t *testing.T) {
	for name, in := range map[string]Input{
		"nothing is kept":  {},
		"there is no room": {Keep: true, KeepLimit: 1 << 20},
	} {
		in.Reply = tool.Reply{Blocks: []tool.Block{image(4<<20, 1)}}
		s := Shape(in)
		if s.Ref != "" || s.BlockRefs[0] != "" || s.Kept != nil || !strings.Contains(s.Content, "4.2 MB: too large to carry]") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Whatever the reply and the limits, content, blocks and structured result stay
// within what a result holds, and so does what is kept.
func TestAResultIsBoundedInBytes(t *testing.T) {
	wide := strings.Repeat("😀", 750_000) // 3 MB
	list := `["` + strings.Repeat(`名前","`, 250_000) + `"]`
	long := make([]tool.Block, 64)
	for i := range long {
		long[i] = tool.Block{Type: "resource", URI: strings.Repeat("x", 5000), Name: strings.Repeat("名", 500), Data: make([]byte, 50_000)}
	}
	for name, reply := range map[string]tool.Reply{
		"wide characters": {Text: []byte(wide)},
		"a wide list":     {Text: []byte(list), JSON: true},
		"two places":      {Text: []byte(wide), Structured: json.RawMessage(list)},
		"blocks":          {Text: []byte(wide), Blocks: long},
		"texts":           {Blocks: []tool.Block{{Type: "resource", Text: wide}, {Type: "resource", Text: wide}}},
	} {
		for limit, untrusted := range map[int]bool{8000: true, 7_000_000: false} {
			t.Run(fmt.Sprintf("%s, %d characters, untrusted %v", name, limit, untrusted), func(t *testing.T) {
				s := Shape(Input{Reply: reply, Limit: limit, Untrusted: untrusted, Keep: true})
				holds := int64(len(s.Content)+len(s.StructuredJSON)) + carried(s.Blocks)
				if holds > DefaultCarry {
					t.Errorf("it holds %d bytes: %d of content, %d structured", holds, len(s.Content), len(s.StructuredJSON))
				}
				if len(s.Kept) > DefaultKeep+len(bundleMark)+1024 {
					t.Errorf("%d bytes are kept", len(s.Kept))
				}
				if n := utf8.RuneCountInString(s.Content); n > limit || !utf8.ValidString(s.Content) {
					t.Errorf("%d characters of content, at most %d", n, limit)
				}
				if limit == 7_000_000 && s.Truncated && len(s.Content) < DefaultCarry/2 {
					t.Errorf("only %d bytes of content", len(s.Content))
				}
			})
		}
	}
}

func TestWhatIsNoBundleIsNotOpened(t *testing.T) {
	whole := bundle([]piece{{data: []byte("text")}, {Name: "1", MediaType: "image/png", data: []byte("data")}})
	for n := range whole {
		for _, name := range []string{"", "1", "2"} {
			kept, ok := Open(whole[:n], true, name)
			if ok && n >= len(bundleMark) && string(kept.Data) != "text" {
				t.Errorf("%d bytes, part %q: %q", n, name, kept.Data)
			}
		}
	}
	if _, ok := Open([]byte("an output of before"), true, "1"); ok {
		t.Error("a text has parts")
	}
	if kept, ok := Open([]byte("an output of before"), false, ""); !ok || string(kept.Data) != "an output of before" || kept.Complete {
		t.Errorf("%v %v", kept, ok)
	}
	b := bundle([]piece{{Name: "1", data: []byte("data")}})
	huge := bytes.Replace(b, []byte(`"size":4`), []byte(`"size":9`), 1)
	if _, ok := Open(huge, true, "1"); ok {
		t.Error("a part that ends after its end")
	}
}

func TestPagesOfBytes(t *testing.T) {
	data := make([]byte, 5<<20)
	for i := range data {
		data[i] = byte(i * 7 / 3)
	}
	for _, limit := range []int64{0, 1, 1000, 2_900_000, 1 << 62} {
		at := int64(0)
		if limit == 1 {
			at = int64(len(data)) - 5
		}
		for from := at; ; {
			page, next, wrong := PageBytes(data, from, limit, "")
			if wrong != nil || len(page) > MaxBytes || !bytes.Equal(page, data[from:next]) {
				t.Fatalf("from %d: %d bytes, next %d, %v", from, len(page), next, wrong)
			}
			if next == int64(len(data)) {
				break
			}
			if next <= from {
				t.Fatal("no progress")
			}
			from = next
		}
	}
	for field, ask := range map[string]func() *tool.Error{
		"offset":  func() *tool.Error { _, _, wrong := PageBytes(data, -1, 0, ""); return wrong },
		"limit":   func() *tool.Error { _, _, wrong := PageBytes(data, 0, -1, ""); return wrong },
		"pattern": func() *tool.Error { _, _, wrong := PageBytes(data, 0, 0, "x"); return wrong },
	} {
		if wrong := ask(); wrong == nil || wrong.Field != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	if page, next, wrong := PageBytes(data, int64(len(data)), 10, ""); wrong != nil || len(page) != 0 || next != int64(len(data)) {
		t.Errorf("at the end: %d bytes, %d, %v", len(page), next, wrong)
	}
}
