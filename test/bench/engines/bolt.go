package main

import (
	"path/filepath"

	"go.etcd.io/bbolt"
)

var buckets = [][]byte{[]byte("records"), []byte("results"), []byte("claims"), []byte("expiry")}

type bolt struct{ db *bbolt.DB }

func openBolt(dir string) (engine, error) {
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, &bbolt.Options{
		FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, NoStatistics: true,
	})
	if err != nil {
		return nil, err
	}
	return bolt{db}, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bolt) commit(group []*write) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		records, results, claims, expiry := tx.Bucket(buckets[0]), tx.Bucket(buckets[1]), tx.Bucket(buckets[2]), tx.Bucket(buckets[3])
		results.FillPercent, expiry.FillPercent = 0.9, 0.9 // appended to
		if !byKey {
			records.FillPercent = 0.9
		}
		for _, w := range group {
			if byKey || w.settle {
				_ = records.Get(w.place) // for the price of it
			}
			if err := records.Put(w.place, w.record); err != nil {
				return err
			}
			if w.settle {
				if err := results.Put(bigEndian(w.seq), w.result); err != nil {
					return err
				}
				if err := claims.Delete(bigEndian(w.seq)); err != nil {
					return err
				}
				continue
			}
			if err := claims.Put(bigEndian(w.seq), w.place); err != nil {
				return err
			}
			if err := expiry.Put(bigEndian(w.seq), w.place); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bolt) expire(n int) error {
	for left := n; left > 0; left -= 1000 {
		err := b.db.Update(func(tx *bbolt.Tx) error {
			expiry, records, results := tx.Bucket(buckets[3]), tx.Bucket(buckets[0]), tx.Bucket(buckets[1])
			c := expiry.Cursor()
			for range min(left, 1000) {
				seq, key := c.First()
				if seq == nil {
					return nil
				}
				if err := records.Delete(key); err != nil {
					return err
				}
				if err := results.Delete(seq); err != nil {
					return err
				}
				if err := expiry.Delete(seq); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b bolt) close() error { return b.db.Close() }
