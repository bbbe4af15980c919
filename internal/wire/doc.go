// Package wire is the codec under the clients: Go structs to and from the forms,
// queries, JSON documents and property strings that Proxmox products speak.
//
// # Tags
//
// The json tag gives the wire name and, with omitempty, says that a zero value is
// left out. What json cannot say stands in a px tag, as words separated by commas:
//
//	Net   map[int]VMNet `json:"net[n],omitempty"`          // net0, net1, …: prefix and digits only
//	Tags  []string      `json:"tags,omitempty" px:"list"`  // one string on the wire, "a,b"
//	Cmd   []string      `json:"command,omitempty"`         // a real array
//	Keys  []string      `json:"sshkeys,omitempty" px:"sshkeys"` // percent-encoded lines in one string
//	Extra map[string]json.RawMessage `json:"-" px:"extra"` // keys the struct does not know
//
// A px:"list" is joined by commas when sent and split at commas, semicolons and white
// space when read; arrays are read too, and a blank string is an empty list. Types with
// MarshalText and UnmarshalText are strings on the wire. Names are matched exactly,
// never by case folding.
//
// # Three states of a parameter
//
// A nil pointer, nil slice or nil map is left out. A pointer to a zero value is sent
// (onboot=0). An empty, non-nil px:"list" is sent as an empty value (tags=), which asks
// the server to set an empty list. Fields without omitempty are always sent.
//
// # Property strings
//
// A struct such as VMNet is written "virtio=BC:24:11:00:00:01,bridge=vmbr0". Its
// methods call [ParseProps], [FormatProps] and [MarshalProps]; the fields carry
//
//	px:"default"                the key that may be left out
//	px:"keyalias=macaddr"       on Model: "virtio=<MAC>" means model=virtio,macaddr=<MAC>
//	px:"keyalias=macaddr:a|b"   the same for the keys a and b alone
//	px:"alias=a|b"              other spellings of the key
//	px:"list=;"                 a list inside the value, joined by the given separator
//	px:"extra"                  on Extra map[string]string: keys the struct does not know
//	px:"extra,quotes"           the same in a product that reads quoted values (PBS, PDM)
//
// The unexported field raw string remembers the text a value was read from: FormatProps
// leaves untouched what the caller did not change. UnmarshalText must set it before it
// calls ParseProps, also when that returns an error: what could be read is kept then.
// [EncodeForm] writes a struct that has both raw and Extra itself, as [MarshalProps]
// would.
//
// # What is never done
//
// Decoding never rounds, wraps or guesses: a value either fits or is a [Misfit].
// Encoding never writes an exponent, "true" into a form, or a key twice.
package wire
