// usage: go run . BASE TOKEN
// What clients.js does, with gopackage/ddp.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gopackage/ddp"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	base, token := os.Args[1], os.Args[2]
	client := ddp.NewClient("ws"+strings.TrimPrefix(base, "http")+"/websocket", base)
	defer client.Close()
	check(client.Connect())
	login, err := client.Call("login", map[string]interface{}{"resume": token})
	check(err)
	check(client.Sub("timelines.public"))
	statuses := client.CollectionByName("statuses")
	before := len(statuses.FindAll())
	posted, err := client.Call("statuses.post", map[string]interface{}{"text": "by gopackage/ddp"})
	check(err)
	id := posted.(map[string]interface{})["id"].(string)
	for range make([]int, 500) {
		if found := statuses.FindOne(id); found != nil {
			out, _ := json.Marshal(map[string]interface{}{
				"login": login.(map[string]interface{})["id"], "before": before, "content": found["content"],
			})
			fmt.Print(string(out))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "the post did not come")
	os.Exit(1)
}
