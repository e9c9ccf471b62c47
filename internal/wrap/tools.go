package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

// listTime bounds one reading of the tool list.
const listTime = time.Minute

var errDown = errors.New("the server is not running")

// tools are those of the server, as far as they are known.
type tools struct {
	mu sync.Mutex
	// byName has every one that was listed last.
	byName map[string]tool.Discovered
	// ownReadOutput: the server has a tool of that name itself.
	ownReadOutput bool
	// keyed: the server says that it honours the key of a call.
	keyed bool
	// wished and done count what was asked for, and what has been listed of it.
	wished, done int
	changed      chan struct{} // closed when done is another
	failed       chan error    // holds why the server is down
	wake         chan struct{} // holds that there is something to list
}

func (t *tools) init() {
	t.byName, t.changed = map[string]tool.Discovered{}, make(chan struct{})
	t.failed, t.wake = make(chan error, 1), make(chan struct{}, 1)
}

// wish has the list read. It returns which reading is meant.
func (t *tools) wish() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wished++
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return t.wished
}

// down says that there is no server.
func (t *tools) down(why error) {
	select {
	case t.failed <- why:
	default:
	}
}

// up forgets that there was no server.
func (t *tools) up() {
	select {
	case <-t.failed: //nolint:errcheck // it is over
	default:
	}
}

// known waits until it is known which tools there are, and reads the list again for a name that
// is not in it: few servers say that it has changed.
func (t *tools) known(ctx context.Context, name string) {
	t.mu.Lock()
	_, there := t.byName[name]
	there = there || name == output.ToolName && t.done > 0
	meant, listing := t.wished, t.done < t.wished
	t.mu.Unlock()
	if there {
		return
	}
	if !listing {
		meant = t.wish()
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	for {
		t.mu.Lock()
		done, changed := t.done, t.changed
		t.mu.Unlock()
		if done >= meant {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hasSchema reports whether the results of a tool have a schema.
func (t *tools) hasSchema(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name].OutputSchema != nil
}

// Schema implements mcptool.Listener.
func (s *server) Schema(ctx context.Context, name string) json.RawMessage {
	s.tools.known(ctx, name)
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	return s.tools.byName[name].InputSchema
}

// readOutputIsTheirs reports that the server has a read_output itself.
func (t *tools) readOutputIsTheirs() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ownReadOutput
}

// declared takes what a server says it can.
func (t *tools) declared(result []byte) {
	keyed := mcptool.Keyed(result)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keyed = keyed
}

func (t *tools) isKeyed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keyed
}

// listed takes a list, and says that it was read.
func (t *tools) listed(upTo int, found []tool.Discovered) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found != nil {
		t.byName = make(map[string]tool.Discovered, len(found))
		for _, d := range found {
			t.byName[d.Name] = d
		}
		_, t.ownReadOutput = t.byName[output.ToolName]
	}
	t.done = max(t.done, upTo)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Run implements backend.Discoverer.
func (r *Relay) Run(ctx context.Context, update func([]tool.Discovered, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case why := <-r.tools.failed:
			update(nil, why)
			continue
		case <-r.tools.wake:
			r.tools.up()
		}
		r.tools.mu.Lock()
		upTo := r.tools.wished
		r.tools.mu.Unlock()
		found, err := r.list(ctx)
		if err != nil {
			r.Log.Warn("the tools of the server could not be listed", "error", err)
			update(nil, err)
			r.tools.listed(upTo, nil)
			continue
		}
		update(forSidecar(found), nil)
		r.tools.listed(upTo, found)
	}
}

// forSidecar are the tools as the sidecar has them. What the server says of results the client
// judges; a read_output of the server's own is not called through the sidecar, which has one.
func forSidecar(found []tool.Discovered) []tool.Discovered {
	given := make([]tool.Discovered, 0, len(found))
	for _, d := range found {
		if d.Name != output.ToolName {
			d.OutputSchema = nil
			given = append(given, d)
		}
	}
	return given
}

// list reads the tool list of the server.
func (r *Relay) list(ctx context.Context) ([]tool.Discovered, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	s := r.server(ctx)
	if s == nil {
		return nil, errDown
	}
	meta := r.opening.said().meta
	listing := mcptool.NewListing(r.Log, r.tools.isKeyed())
	err := listing.Read(func(cursor string) (json.RawMessage, error) {
		params := map[string]any{}
		if meta != nil {
			params["_meta"] = meta
		}
		if cursor != "" {
			params["cursor"] = cursor
		}
		return s.ask(ctx, methodList, params)
	})
	if err != nil {
		return nil, err
	}
	return append([]tool.Discovered{}, listing.Tools()...), nil
}

// withReadOutput is a result of tools/list with read_output behind its tools, on the last page.
func (t *tools) withReadOutput(result []byte) (with []byte, ok bool) {
	says, err := readObject(result)
	if err != nil {
		return nil, false
	}
	next := says.get("nextCursor")
	list := strings.TrimSpace(string(says.get("tools")))
	if next != nil && string(next) != "null" && string(next) != `""` || !strings.HasPrefix(list, "[") {
		return nil, false
	}
	var names []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal([]byte(list), &names) != nil || t.readOutputIsTheirs() {
		return nil, false
	}
	for _, one := range names {
		if one.Name == output.ToolName {
			return nil, false
		}
	}
	list = strings.TrimRight(strings.TrimSuffix(list, "]"), " \t\r\n")
	if list != "[" {
		list += ","
	}
	return says.set("tools", []byte(list+string(readOutput())+"]")).text(), true
}

// readOutput is how read_output is listed.
func readOutput() []byte {
	made := output.Tool()
	return marshal(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations map[string]bool `json:"annotations"`
	}{made.Name, made.Description, made.InputSchema, map[string]bool{"readOnlyHint": made.Effect == tool.ReadOnly}})
}
