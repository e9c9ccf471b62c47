package config

// Load reads, parses and checks the file at path, with secrets from this
// process's environment and files. The error is of type Problems.
func Load(path string) (*Config, error) {
	data, err := readBounded(path, MaxFileBytes)
	if err != nil {
		return nil, Problems{{File: path, Message: "cannot read the config file: " + reason(err)}}
	}
	return Parse(path, data, System())
}

// Parse parses and checks data; name stands for the file in messages. The
// error is of type Problems: everything that is wrong, by position, at most
// MaxProblems and a last one that says how many more there are.
func Parse(name string, data []byte, env Environment) (*Config, error) {
	found := &collector{file: name}
	root, bad := parseText(name, data)
	if bad != nil {
		return nil, Problems{*bad}
	}
	tree := expand(root, found)
	if tree == nil {
		return nil, found.problems()
	}
	c := &Config{source: &source{file: name, root: tree}}
	d := &decoder{env: env, found: found}
	d.document(tree, c)
	c.check(found)
	if problems := found.problems(); problems != nil {
		return nil, problems
	}
	c.warnings = found.warned()
	c.notEnforced = d.notEnforced()
	return c, nil
}
