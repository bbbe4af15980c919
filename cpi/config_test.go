package cpi

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testSecret = "0f1e2d3c-aaaa-bbbb-cccc-canary000001"

func minimalConfig() string {
	return `{"endpoint":"https://pve1:8006","token":"cpi@pve!bosh=` + testSecret + `","storage":"fast"}`
}

// contextOf returns the properties of a request's context.
func contextOf(t testing.TB, text string) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte(minimalConfig()), nil)
	require.NoError(t, err)
	assert.Equal(t, Config{
		Endpoints: []string{"https://pve1:8006"}, TokenID: "cpi@pve!bosh", TokenSecret: testSecret,
		Storage: []string{"fast"}, DiskStorage: []string{"fast"}, Bridge: "vmbr0", Model: "virtio", CPUType: "x86-64-v2-AES",
		LockDir: filepath.Join(os.TempDir(), fmt.Sprintf("proxmox-cpi-locks-%d", os.Getuid())), NodeConcurrency: 3,
		RequestTimeout: 2 * time.Minute, CallTimeout: time.Hour,
	}, c)
}

func TestConfigComesFromTheContextAlone(t *testing.T) {
	t.Parallel()
	fromFile, err := ParseConfig([]byte(minimalConfig()), nil)
	require.NoError(t, err)
	fromContext, err := LoadConfig("", contextOf(t, minimalConfig()))
	require.NoError(t, err)
	assert.Equal(t, fromFile, fromContext)
}

func TestConfigOverlay(t *testing.T) {
	t.Parallel()
	const certificate = "-----BEGIN CERTIFICATE-----\nMIIBdTCCARugAwIBAgIUBk8\n-----END CERTIFICATE-----\n"
	file := `{"endpoint":["https://a:8006","https://b:8006"],"token_id":"cpi@pve!bosh","token_secret":"` + testSecret + `",
		"storage":["fast","slow"],"disk_storage":{"ceph":true,"old":false},"iso_storage":"iso","import_storage":"imp","pool":"bosh/one",
		"nodes":["n1","n2"],"bridge":"vmbr1","model":"e1000","cpu_type":"host","start_on_boot":true,"tags":{"owner":"me"},
		"agent":{"mbus":"https://u:mbus-password@0.0.0.0:6868","ntp":["t1"],"blobstore":{"provider":"dav","options":{"password":"blob-password"}}},
		"lock_dir":"/run/locks","node_concurrency":5,"request_timeout":7,"call_timeout":8,"fingerprint":"` + strings.Repeat("Ab:", 31) + `cd"}`

	c, err := ParseConfig([]byte(file), contextOf(t, `{
		"endpoint":"https://c:8006","token":"x@pam!y=other-secret-1","storage":"","pool":null,"nodes":{"n3":true},"agent":{"ntp":"t2"},"call_timeout":9,
		"cluster_of_the_director":"ignored","az_hint":{"a":1}}`))

	require.NoError(t, err)
	assert.Equal(t, Config{
		Endpoints: []string{"https://c:8006"}, TokenID: "x@pam!y", TokenSecret: "other-secret-1",
		Fingerprint: strings.Repeat("Ab:", 31) + "cd",
		Storage:     []string{"fast", "slow"}, DiskStorage: []string{"ceph"}, ISOStorage: "iso", ImportStorage: "imp",
		Pool: "bosh/one", Nodes: []string{"n3"}, Bridge: "vmbr1", Model: "e1000", CPUType: "host", StartOnBoot: true,
		Tags: map[string]string{"owner": "me"},
		Agent: AgentConfig{
			MBus: "https://u:mbus-password@0.0.0.0:6868", NTP: []string{"t2"},
			Blobstore: json.RawMessage(`{"provider":"dav","options":{"password":"blob-password"}}`),
		},
		LockDir: "/run/locks", NodeConcurrency: 5, RequestTimeout: 7 * time.Second, CallTimeout: 9 * time.Second,
	}, c)
	assert.Subset(t, c.Secrets(), []string{"other-secret-1", "https://u:mbus-password@0.0.0.0:6868", "blob-password"})

	_, err = ParseConfig([]byte(minimalConfig()), contextOf(t, fmt.Sprintf(`{"ca_certificate":%q}`, certificate)))
	assert.ErrorContains(t, err, "ca_certificate: holds no certificate", "the PEM holds no real one")
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	with := func(more string) string {
		all := contextOf(t, minimalConfig())
		maps.Copy(all, contextOf(t, "{"+more+"}"))
		text, err := json.Marshal(all)
		require.NoError(t, err)
		return string(text)
	}
	twice := func(more string) string { return strings.TrimSuffix(minimalConfig(), "}") + "," + more + "}" }
	for _, tc := range []struct {
		name, file, context string
		wants               []string
	}{
		{"nothing at all", ``, ``, []string{"endpoint: is missing", "token: is missing", "storage: is missing"}},
		{"no token", `{"endpoint":"https://a","storage":"s"}`, ``, []string{"the CPI configuration: token: is missing", "user@realm!id=secret"}},
		{"no token name", `{"endpoint":"https://a","storage":"s","token_secret":"` + testSecret + `"}`, ``, []string{"token_id: is missing"}},
		{"no secret", `{"endpoint":"https://a","storage":"s","token_id":"a@pve!b"}`, ``, []string{"token_secret: is missing"}},
		{"a token without a secret", `{"endpoint":"https://a","storage":"s","token":"a@pve!b"}`, ``, []string{"token: must be of the form"}},
		{"a token of a user alone", `{"endpoint":"https://a","storage":"s","token":"root@pam=` + testSecret + `"}`, ``, []string{"token_id: the name of a token has the form"}},
		{"a token twice", with(`"token_secret":"x"`), ``, []string{"token: stands beside token_id or token_secret"}},
		{"a token that is a number", `{"endpoint":"https://a","storage":"s","token":12345678}`, ``, []string{"token: must be a string, got a number"}},
		{"no endpoint", `{"token":"a@pve!b=` + testSecret + `","storage":"s"}`, ``, []string{"endpoint: is missing", "https://pve1.example.com:8006"}},
		{"an endpoint without TLS", with(`"endpoint":"http://a"`), ``, []string{"endpoint: must begin with https://"}},
		{"an endpoint without TLS among others", with(`"endpoint":["pve1","HTTP://b"]`), ``, []string{`endpoint: must begin with https://, because the token is sent to it, got "HTTP://b"`}},
		{"an endpoint that is no host", with(`"endpoint":"pve 1"`), ``, []string{`endpoint: must be an address such as "pve1.example.com"`, `got "pve 1": "pve 1" is no host name`}},
		{"an endpoint of another scheme", with(`"endpoint":"ftp://pve1"`), ``, []string{`got "ftp://pve1": the scheme is "ftp"`}},
		{"a password without a scheme", with(`"endpoint":"root:` + testSecret + `@pve1"`), ``, []string{"endpoint: must not hold a user"}},
		{"a doubled key", twice(`"storage":"other"`), ``, []string{"the CPI configuration: storage: stands twice in the file: remove one of the two"}},
		{"a doubled key within", twice(`"agent":{"ntp":[],"mbus":"nats://a","mbus":"https://u:` + testSecret + `@a"}`), ``, []string{"agent.mbus: stands twice in the file"}},
		{"dots in a key", with(`"agent.mbus":"https://u:` + testSecret + `@a"`), ``, []string{`agent.mbus: unknown key: a dot stands for nesting: write {"agent": {"mbus": …}}`}},
		{"dots in the context", minimalConfig(), `{"agent.ntp":"a"}`, []string{`the context of the request: agent.ntp: unknown key: a dot stands for nesting: write {"agent": {"ntp": …}}`}},
		{"a message bus without a scheme", with(`"agent":{"mbus":"u:` + testSecret + `@0.0.0.0:6868"}`), ``, []string{"agent.mbus: must be a URL that begins with https:// or nats://"}},
		{"a message bus of another scheme", with(`"agent":{"mbus":"http://u:` + testSecret + `@0.0.0.0:6868"}`), ``, []string{"agent.mbus: must be a URL that begins with https:// or nats://"}},
		{"a message bus without a host", with(`"agent":{"mbus":"nats://"}`), ``, []string{"agent.mbus: must be a URL"}},
		{"a short word unlike any", with(`"foo":"x"`), ``, []string{"foo: unknown key: the known keys are agent, bridge,"}},
		{"two letters", with(`"pl":"x"`), ``, []string{"pl: unknown key: the known keys are agent, bridge,"}},
		{"an endpoint with a password", with(`"endpoint":"https://root:` + testSecret + `@a"`), ``, []string{"endpoint: must not hold a user"}},
		{"an endpoint of the wrong type", with(`"endpoint":5`), ``, []string{"endpoint: must be a string or a list of strings, got a number"}},
		{"an unknown key", with(`"storge":"x"`), ``, []string{`storge: unknown key: did you mean "storage"?`}},
		{"a key unlike any", with(`"zzzzzzzzz":"x"`), ``, []string{"zzzzzzzzz: unknown key: the known keys are agent, bridge,"}},
		{"a word of other clouds", with(`"memory":1`), ``, []string{"memory: unknown key"}},
		{"an unknown key of the agent", with(`"agent":{"mbuss":"x"}`), ``, []string{`agent.mbuss: unknown key: did you mean "mbus"?`}},
		{"a slip in the context", minimalConfig(), `{"storagee":"x"}`, []string{`the context of the request: storagee: unknown key: did you mean "storage"?`}},
		{"a quoted number", with(`"node_concurrency":"4"`), ``, []string{`node_concurrency: must be a whole number, got the string "4": write the number without quotes`}},
		{"a fraction", with(`"call_timeout":1.5`), ``, []string{"call_timeout: must be a whole number, got 1.5"}},
		{"a number out of range", with(`"call_timeout":0`), ``, []string{"call_timeout: must be from 1 to 86400, got 0"}},
		{"a quoted boolean", with(`"start_on_boot":"true"`), ``, []string{`start_on_boot: must be true or false, got the string "true": write true or false without quotes`}},
		{"an unknown model", with(`"model":"rtl8139"`), ``, []string{`model: must be one of virtio, e1000, e1000e, vmxnet3, got "rtl8139"`}},
		{"a name with a comma", with(`"storage":"fast,slow"`), ``, []string{`storage: "fast,slow" is not a name`}},
		{"nodes as a text", with(`"nodes":"n1"`), ``, []string{"nodes: must be a list of strings, got a string"}},
		{"no node", with(`"nodes":[]`), ``, []string{"nodes: names nothing"}},
		{"a map of texts for a list", with(`"nodes":{"n1":"yes"}`), ``, []string{`as a map it must hold true or false, but "n1" is a string`}},
		{"a short fingerprint", with(`"fingerprint":"ab:cd"`), ``, []string{"fingerprint: must be the SHA-256"}},
		{"a certificate that is none", with(`"ca_certificate":"x"`), ``, []string{"ca_certificate: holds no certificate"}},
		{"a blobstore that is a text", with(`"agent":{"blobstore":"` + testSecret + `"}`), ``, []string{"agent.blobstore: must be an object, got a string"}},
		{"the agent as a text", with(`"agent":"https://u:` + testSecret + `@a"`), ``, []string{"agent: must be an object, got a string"}},
		{"reserved tags", with(`"tags":{"bosh":"vm","director":"x"}`), ``, []string{"tags.bosh: cannot be a tag", "tags.director: cannot be a tag"}},
		{"a later key", with(`"ha":true`), ``, []string{"ha: is not supported yet"}},
		{"an array", `[]`, ``, []string{"the CPI configuration: must be an object, got an array"}},
		{"cut", `{"endpoint":"https://`, ``, []string{"the file is not valid JSON: the error is at byte 21"}},
		{"two mistakes", with(`"mdel":"virtio","call_timeout":true`), ``, []string{`mdel: unknown key: did you mean "model"?`, "call_timeout: must be"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var properties map[string]json.RawMessage
			if tc.context != "" {
				properties = contextOf(t, tc.context)
			}

			_, err := ParseConfig([]byte(tc.file), properties)

			require.Error(t, err)
			for _, want := range tc.wants {
				assert.ErrorContains(t, err, want)
			}
			assert.NotContains(t, err.Error(), testSecret)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cpi.json")
	_, err := LoadConfig(path, nil)
	assert.ErrorContains(t, err, "check -configFile")

	require.NoError(t, os.WriteFile(path, []byte(" \n"), 0o600))
	_, err = LoadConfig(path, nil)
	assert.ErrorContains(t, err, "is empty")

	require.NoError(t, os.WriteFile(path, []byte("{\n"), 0o600))
	_, err = LoadConfig(path, nil)
	assert.ErrorContains(t, err, "the file "+path+" is not valid JSON")

	require.NoError(t, os.WriteFile(path, []byte(`{"pool":"a","pool":"b"}`), 0o600))
	_, err = LoadConfig(path, nil)
	assert.ErrorContains(t, err, "pool: stands twice in the file "+path)

	require.NoError(t, os.WriteFile(path, []byte(minimalConfig()), 0o600))
	c, err := LoadConfig(path, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"fast"}, c.Storage)
}

// TestEndpoints holds the configuration to what pve.NewClient takes.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"pve1", "pve1.example.com:8006", "192.0.2.1", "[2001:db8::1]:8006", "2001:db8::1", "https://pve1", "https://proxy/pve/"} {
		c, err := ParseConfig([]byte(minimalConfig()), contextOf(t, fmt.Sprintf(`{"endpoint":%q}`, endpoint)))
		require.NoError(t, err, endpoint)
		assert.Equal(t, []string{endpoint}, c.Endpoints)
		_, err = New(c, Options{})
		assert.NoError(t, err, endpoint)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	var known []string
	for _, k := range ConfigKeys() {
		known = append(known, k.Name)
	}
	for key, want := range map[string]string{
		"pol": "pool", "poool": "pool", "stroage": "storage", "Bridge": "bridge", "tokens": "token", "finger_print": "fingerprint", "iso_storge": "iso_storage",
		"node_concurency": "node_concurrency", "mode": "model",
		"foo": "", "a": "", "pl": "", "loop": "", "bosh": "", "port": "", "stage": "", "director": "",
	} {
		assert.Equal(t, want, nearest(key, known), key)
	}
}

func TestConfigTakesACertificate(t *testing.T) {
	t.Parallel()
	// Any real certificate will do.
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	defer srv.Close()
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))

	c, err := ParseConfig([]byte(minimalConfig()), contextOf(t, fmt.Sprintf(`{"ca_certificate":%q}`, text)))

	require.NoError(t, err)
	assert.Equal(t, text, c.CACertificate)
}

func TestKeyErrorIsTyped(t *testing.T) {
	t.Parallel()
	_, err := ParseConfig([]byte(`{"endpoint":"https://a","token":"a@pve!b=c","storrage":"x"}`), nil)
	var key *KeyError
	require.ErrorAs(t, err, &key)
	assert.Equal(t, KeyError{Place: "the CPI configuration", Key: "storrage", Problem: `unknown key: did you mean "storage"?`}, *key)
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(minimalConfig()), []byte(`{"agent":{"ntp":"x"}}`))
	f.Add([]byte(`{"storage":{"a":true}}`), []byte(`{"token":1}`))
	f.Fuzz(func(t *testing.T, file, properties []byte) {
		var m map[string]json.RawMessage
		if json.Unmarshal(properties, &m) != nil {
			m = nil
		}
		c, err := ParseConfig(file, m)
		if err != nil {
			return
		}
		require.NotEmpty(t, c.Endpoints)
		require.NotEmpty(t, c.Storage)
		require.NotEmpty(t, c.TokenSecret)
	})
}

func ExampleParseConfig() {
	_, err := ParseConfig([]byte(`{"endpoint": "https://pve1:8006", "token": "cpi@pve!bosh=…", "storge": "fast"}`), nil)
	fmt.Println(err)
	// Output:
	// the CPI configuration: storge: unknown key: did you mean "storage"?
}
