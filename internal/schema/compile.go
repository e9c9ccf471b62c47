package schema

import (
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/pattern"
)

// MaxSchemaBytes bounds the text of one schema.
const MaxSchemaBytes = 4 << 20

// Options say how the arguments of one tool are checked, beyond its schema.
type Options struct {
	// Sensitive names properties, at any depth, whose values are never shown.
	// Those that the schema marks writeOnly or format: password need no entry.
	Sensitive []string
	// Coerce allows a value that is a lossless spelling of what the schema wants
	// to be taken for it: "5" for 5, "true" for true, 5 for "5".
	Coerce bool
	// Closed refuses arguments that the schema does not name, unless it says that
	// there may be others. Without it they fit, as JSON Schema has it.
	Closed bool

	// result is of an output schema, whose formats are not asserted: the tool has run, and
	// its result is not to be lost over the spelling of a date.
	result bool
}

// Schema checks the arguments of one tool. It is immutable and safe for
// concurrent use.
type Schema struct {
	name    string // of the tool
	source  []byte // which is compiled when that is needed
	options Options

	compiled func() (checker, error) // once; at the latest at the first check
	index    func() *index           // once, at the first violation
	secrets  func() *sensitiveness   // likewise

	size    int            // instructions of its patterns, where it was only read
	meter   *pattern.Meter // nil where steps are not counted
	counted sync.Pool      // of *Schema, the same with meters: see within
}

// read takes what is evidently in order as it is, and compiles what is not.
func (s *Schema) read(doc any) error {
	if found := (patterns{}); sound(doc, found) {
		s.size = found.total()
		return nil
	}
	c, err := s.compiled()
	s.size = c.patterns.total()
	return err
}

// root is the compiled schema. It may be asked for once that has succeeded.
func (s *Schema) root() *jsonschema.Schema {
	c, _ := s.compiled() // see above
	return c.root
}

// Instructions is how many its patterns have together.
func (s *Schema) Instructions() int { return s.size }

// checker is the compiled form of a schema.
type checker struct {
	root *jsonschema.Schema
	// weight is how many steps a byte of a value may cost in patterns, burden the
	// work that any value may be besides.
	weight   int64
	burden   int64
	ways     func() map[*jsonschema.Schema]ways // once, when work has to be counted
	patterns patterns
	quick    quick // nil for none
}

// Compile reads the input schema of a tool: JSON Schema of draft 2020-12, or
// of the draft that $schema names (04, 06, 07, 2019-09). Formats are asserted.
// References to other documents are refused, never fetched. The error is a
// *CompileError.
//
// A schema that is evidently in order is only read here, and compiled by the
// first Check or by Prepare. inputSchema must not be changed afterwards.
func Compile(name string, inputSchema []byte, opts Options) (*Schema, error) {
	s, _, err := CompileDraft(name, inputSchema, opts)
	return s, err
}

// CompileDraft is Compile, and gives the text that it has read besides: as far as
// it could be read, if it cannot be compiled.
func CompileDraft(name string, inputSchema []byte, opts Options) (*Schema, Draft, error) {
	doc, fail := readSchema(name, inputSchema)
	if fail != nil {
		return nil, Draft{root: true}, fail
	}
	s, err := compileDoc(name, inputSchema, doc, opts)
	draft := Draft{root: doc}
	if opts.Closed {
		draft.enforced = declared(doc)
	}
	return s, draft, err
}

func compileDoc(name string, inputSchema []byte, doc any, opts Options) (*Schema, error) {
	if fail := wantsObject(name, doc); fail != nil {
		return nil, fail
	}
	s := newSchema(name, inputSchema, opts, nil)
	if err := s.read(doc); err != nil {
		return nil, err
	}
	return s, nil
}

// newSchema is a schema that is not compiled yet; with a meter, its patterns are
// counted.
func newSchema(name string, source []byte, opts Options, meter *pattern.Meter) *Schema {
	s := &Schema{name: name, source: source, meter: meter, options: opts}
	s.compiled = sync.OnceValues(s.compile)
	s.index = sync.OnceValue(func() *index { return newIndex(s.root(), s.source) })
	s.secrets = sync.OnceValue(func() *sensitiveness { return newSensitiveness(s.root(), s.options.Sensitive, s.index()) })
	return s
}

// Prepare does now what the first Check would have to do. Whoever registers
// tools may call it in the background. The error is a *CompileError, but for a
// nil Schema, that of a tool which is gone.
func (s *Schema) Prepare() error {
	if s == nil {
		return errNoSchema
	}
	_, err := s.compiled()
	return err
}

var errNoSchema = errors.New("there is no schema")

func (s *Schema) compile() (checker, error) {
	var c checker
	doc, fail := readSchema(s.name, s.source)
	if fail == nil {
		var names *declaration
		if s.options.Closed {
			names = declared(doc)
		}
		c, fail = compile(s.name, doc, names, !s.options.result, s.meter)
	}
	switch {
	case fail == nil:
		return c, nil
	case s.options.result:
		return checker{}, &OutputError{*fail}
	default:
		return checker{}, fail
	}
}

// sensitive is what is never shown, for one look at arguments: of a nil schema, and of one
// that cannot be compiled, everything.
func (s *Schema) sensitive() *sensitiveness {
	if s.Prepare() != nil {
		return &sensitiveness{all: true}
	}
	return s.secrets().forOne()
}

// readSchema parses the text of a schema.
func readSchema(name string, text []byte) (any, *CompileError) {
	if len(text) > MaxSchemaBytes {
		return nil, &CompileError{Tool: name, Reason: fmt.Sprintf("is longer than %d bytes", MaxSchemaBytes)}
	}
	doc, f := parseValue(text, true)
	if f == nil {
		return doc, tooManyPlaces(name, doc)
	}
	if f.name != "" {
		return nil, &CompileError{Tool: name, Reason: fmt.Sprintf("the name %q appears twice in one object (path %s)", f.name, f.field)}
	}
	raw := string(text)
	f.locate(raw)
	line, column := position(raw, f.offset)
	return nil, &CompileError{Tool: name, Reason: fmt.Sprintf("is not JSON: expected %s at line %d, column %d", f.expected, line, column)}
}

// wantsObject refuses a schema that no arguments can fit, as they are always
// an object.
func wantsObject(name string, doc any) *CompileError {
	obj, ok := doc.(map[string]any)
	if !ok {
		return &CompileError{Tool: name, Reason: "must be a JSON object"}
	}
	switch t := obj["type"].(type) {
	case string:
		if t != "object" {
			return &CompileError{Tool: name, Pointer: "/type", Reason: fmt.Sprintf("must be \"object\", because arguments always are one; it is %q", t)}
		}
	case []any:
		for _, one := range t {
			if one == "object" {
				return nil
			}
		}
		return &CompileError{Tool: name, Pointer: "/type", Reason: "must allow \"object\", because arguments always are one"}
	}
	return nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

func compile(name string, doc any, names *declaration, formats bool, meter *pattern.Meter) (checker, *CompileError) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	e := &engine{known: patterns{}, meter: meter}
	c.UseRegexpEngine(e.compile)
	if formats {
		c.AssertFormat()
	}
	for _, f := range extraFormats {
		c.RegisterFormat(f)
	}
	if err := c.AddResource(documentURL, doc); err != nil {
		return checker{}, &CompileError{Tool: name, Reason: err.Error()}
	}
	root, err := c.Compile(documentURL)
	if err != nil {
		return checker{}, explainCompile(name, doc, err)
	}
	if fail := unboundedCheck(name, root); fail != nil {
		return checker{}, fail
	}
	root = names.closing(root, e)
	eachSchema(root, takeOver)
	e.done = true
	var fits quick
	if meter == nil { // what is counted is matched once
		fits = quickened{}.of(root)
	}
	return checker{
		root: root, weight: weight(root), burden: burden(root), patterns: e.known, quick: fits,
		ways: sync.OnceValue(func() map[*jsonschema.Schema]ways { return allWays(root) }),
	}, nil
}
