// PocketBase as its own releases build it, except that TENANTRY_BENCH_SYNCHRONOUS sets SQLite's `synchronous`.
package main

import (
	"log"
	"os"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase"
)

// The settings of PocketBase's own core.DefaultDBConnect, with the given `synchronous`.
func connect(path string) (*dbx.DB, error) {
	synchronous := os.Getenv("TENANTRY_BENCH_SYNCHRONOUS")
	if synchronous == "" {
		synchronous = "NORMAL"
	}
	pragmas := "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)" +
		"&_pragma=synchronous(" + synchronous + ")&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-16000)"
	return dbx.Open("sqlite", path+pragmas)
}

func main() {
	app := pocketbase.NewWithConfig(pocketbase.Config{DBConnect: connect})
	if err := app.Start(); err != nil {
		log.Fatal(err)
	}
}
