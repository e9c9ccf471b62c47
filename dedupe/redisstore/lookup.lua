-- Returns {now, record}; the record is missing when there is none. KEYS: record.
return {now, stored}
