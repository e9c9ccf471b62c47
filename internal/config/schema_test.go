package config

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(jsonSchema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(schemaID)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON is a file as an editor sees it: YAML as JSON, nothing resolved. False
// when it is not even that.
func asJSON(t testing.TB, data []byte) (any, bool) {
	t.Helper()
	found := &collector{}
	tree := parse(found, data)
	if tree == nil {
		return nil, false
	}
	d := &decoder{found: found}
	text := d.json(nil, spot{node: tree})
	for _, p := range found.found {
		// Keys need no quotes outside of schemas: exit_codes: {1: ...}.
		if !strings.HasPrefix(p.Message, "expected a string as a key, found the number") {
			return nil, false
		}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("no JSON: %v in %s", err, text)
	}
	return value, true
}

func TestSchemaAcceptsWhatTheDecoderAccepts(t *testing.T) {
	schema := compiledSchema(t)
	for _, file := range testFiles(t, "testdata/good/*.yaml") {
		value, ok := asJSON(t, read(t, file))
		if !ok {
			t.Errorf("%s: not JSON", file)
			continue
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The good files show every key that there is.
func TestTheGoodFilesHaveEveryKey(t *testing.T) {
	var all strings.Builder
	for _, file := range testFiles(t, "testdata/good/*.yaml") {
		all.Write(read(t, file))
	}
	var schema any
	if err := json.Unmarshal(read(t, "schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	keys := propertyNames(schema, map[string]bool{})
	if len(keys) < 100 {
		t.Fatalf("the schema has %d keys only", len(keys))
	}
	for key := range keys {
		if !regexp.MustCompile(`(?m)(^|[\s{])` + key + `:`).MatchString(all.String()) {
			t.Errorf("no good file has %s", key)
		}
	}
}

// propertyNames collects the names that a schema gives properties.
func propertyNames(schema any, names map[string]bool) map[string]bool {
	switch node := schema.(type) {
	case []any:
		for _, one := range node {
			propertyNames(one, names)
		}
	case map[string]any:
		for key, value := range node {
			if properties, ok := value.(map[string]any); ok && key == "properties" {
				for name := range properties {
					names[name] = true
				}
			}
			propertyNames(value, names)
		}
	}
	return names
}

// beyondSchema are the bad files whose mistake a JSON Schema cannot see:
// references between parts of the file, secrets, sizes with units.
var beyondSchema = []string{
	"duration_out_of_range", "files_in_one_place", "identity_empty", "listen_not_loopback",
	"listen_socket_path_too_long", "listen_twice", "notify_secret", "operator_among_agents", "reference_empty_required",
	"reference_malformed", "reference_unset", "reference_value_not_shown",
	"retention_shorter_than_a_deadline", "retention_too_short", "retry_merged",
	"store_redis_cluster_db", "store_redis_master_unset", "store_redis_several",
	"tool_keyed_without_header", "tool_unknown_backend",
	"tool_unknown_backend_none", "tool_verifies_itself", "tool_wrong_kind",
}

func TestSchemaRefusesWhatItCan(t *testing.T) {
	schema := compiledSchema(t)
	var unseen []string
	for _, file := range testFiles(t, "testdata/bad/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		value, ok := asJSON(t, read(t, file))
		if ok && schema.Validate(value) == nil {
			unseen = append(unseen, name)
		}
	}
	if !slices.Equal(unseen, beyondSchema) {
		t.Errorf("bad files that the schema accepts:\n got %q\nwant %q", unseen, beyondSchema)
	}
}
