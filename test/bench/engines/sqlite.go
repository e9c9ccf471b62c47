package main

import (
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

type lite struct {
	db                                     *sql.DB
	get, put, result, claim, strike, queue *sql.Stmt
}

const schema = `
CREATE TABLE IF NOT EXISTS records(key BLOB PRIMARY KEY, record BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results(seq INTEGER PRIMARY KEY, result BLOB);
CREATE TABLE IF NOT EXISTS claims(seq INTEGER PRIMARY KEY, key BLOB);
CREATE TABLE IF NOT EXISTS expiry(seq INTEGER PRIMARY KEY, key BLOB);`

func openSQLite(dir string) (engine, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=locking_mode(EXCLUSIVE)&_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return nil, err
	}
	l := &lite{db: db}
	for stmt, text := range map[**sql.Stmt]string{
		&l.get:    "SELECT record FROM records WHERE key = ?",
		&l.put:    "INSERT INTO records VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET record = excluded.record",
		&l.result: "INSERT INTO results VALUES(?, ?)",
		&l.claim:  "INSERT INTO claims VALUES(?, ?)",
		&l.strike: "DELETE FROM claims WHERE seq = ?",
		&l.queue:  "INSERT INTO expiry VALUES(?, ?)",
	} {
		if *stmt, err = db.Prepare(text); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *lite) commit(group []*write) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	get, put, result := tx.Stmt(l.get), tx.Stmt(l.put), tx.Stmt(l.result)
	claim, strike, queue := tx.Stmt(l.claim), tx.Stmt(l.strike), tx.Stmt(l.queue)
	for _, w := range group {
		var record []byte
		if !byKey && !w.settle {
			// the index has told that there is none
		} else if err := get.QueryRow(w.place).Scan(&record); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err := put.Exec(w.place, w.record)
		var err1, err2 error
		if w.settle {
			_, err1 = result.Exec(int64(w.seq), w.result)
			_, err2 = strike.Exec(int64(w.seq))
		} else {
			_, err1 = claim.Exec(int64(w.seq), w.place)
			_, err2 = queue.Exec(int64(w.seq), w.place)
		}
		if err := errors.Join(err, err1, err2); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (l *lite) expire(n int) error {
	for left := n; left > 0; left -= 1000 {
		_, err := l.db.Exec(`BEGIN;
			DELETE FROM records WHERE key IN (SELECT key FROM expiry ORDER BY seq LIMIT 1000);
			DELETE FROM results WHERE seq IN (SELECT seq FROM expiry ORDER BY seq LIMIT 1000);
			DELETE FROM expiry WHERE seq IN (SELECT seq FROM expiry ORDER BY seq LIMIT 1000);
			COMMIT;`)
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lite) close() error { return l.db.Close() }
