package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFlagFile bounds a file that a flag names, in bytes: more is sent by nobody.
const maxFlagFile = 1 << 20

// textOrFile returns what a flag says: its text, or the file that it names.
func textOrFile(value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFlagFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if len(text) > maxFlagFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFlagFile)
	}
	return string(text), nil
}
