package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// maxFlagFile bounds a file that a flag names, in bytes: more is sent by nobody.
	maxFlagFile = 1 << 20
	// maxArguments bounds the arguments of a call that come from a file or from
	// stdin, in bytes; what a sidecar takes, it says itself.
	maxArguments = 64 << 20
)

// textOrFile returns what a flag says: its text, or the file that it names.
func textOrFile(value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	return fileText(path, maxFlagFile)
}

// argumentsOf returns the arguments that a command line says: themselves, those of
// the file that it names, or those on stdin.
func argumentsOf(value string, stdin io.Reader) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		return readText(stdin, "stdin", maxArguments)
	case !isFile:
		return value, nil
	case path == "":
		return "", errors.New("@: want a file name after @")
	default:
		return fileText(path, maxArguments)
	}
}

// fileText returns what a file of at most so many bytes holds.
func fileText(path string, most int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := readText(file, path, most)
	return text, errors.Join(err, file.Close())
}

func readText(from io.Reader, name string, most int64) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return string(text), err
}
