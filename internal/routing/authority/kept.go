package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SecretType is that of the Secret. The API server lets nobody change it: one of another type is somebody
// else's.
const SecretType = "ingressdaemonsets.mumoshu.github.io/stream-authorities"

// What the Secret holds of authorities: certificates and, of those that sign or will, keys.
const (
	slotSigning = "signing"
	slotNext    = "next"
	slotFormer  = "former"
	suffixChain = ".crt"
	suffixKey   = ".key"
	// fileSum is the SHA-256 of all the others. By it an edit is told from a write of ours: an authority that
	// somebody put there was never published.
	fileSum = "sha256"
)

// kept is what the Secret holds.
type kept struct {
	// signing is who signs, next who is to sign when it is published. Either may be nil.
	signing, next *Authority
	// former are those that signed, without keys.
	former []*Authority
}

// all are the authorities that are to be trusted, who signs first.
func (k kept) all() (out []*Authority) {
	for _, a := range append([]*Authority{k.signing, k.next}, k.former...) {
		if a != nil {
			out = append(out, a)
		}
	}
	return out
}

// formerly are those that signed, with one more unless it is nil.
func (k kept) formerly(a *Authority) []*Authority {
	if a == nil {
		return k.former
	}
	return append([]*Authority{a}, k.former...)
}

// data is what the Secret is to hold.
func (k kept) data() (map[string][]byte, error) {
	data := map[string][]byte{}
	for slot, a := range map[string]*Authority{slotSigning: k.signing, slotNext: k.next} {
		if a == nil {
			continue
		}
		der, err := x509.MarshalPKCS8PrivateKey(a.key)
		if err != nil {
			return nil, fmt.Errorf("writing the key of an authority: %w", err)
		}
		data[slot+suffixChain] = a.pem()
		data[slot+suffixKey] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	for _, a := range k.former {
		data[slotFormer+suffixChain] = append(data[slotFormer+suffixChain], a.pem()...)
	}
	data[fileSum] = sumOf(data)
	return data, nil
}

// sumOf is the SHA-256 of all files but its own, as hex.
func sumOf(data map[string][]byte) []byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name != fileSum {
			fmt.Fprintf(h, "%q %q\n", name, data[name])
		}
	}
	return []byte(hex.EncodeToString(h.Sum(nil)))
}

// readSecret reads the Secret, or says why it is left as it is. Nothing of a key is said.
func readSecret(s *Secret) (k kept, problem string) {
	switch {
	case s == nil:
		return kept{}, ""
	case s.Type != SecretType:
		return kept{}, fmt.Sprintf("its type is %q and not %q: it is somebody else's, and is left alone", s.Type, SecretType)
	case !bytes.Equal(s.Data[fileSum], sumOf(s.Data)):
		return kept{}, "somebody changed it, and it is left alone: delete it, and new authorities are made"
	}
	k, err := readKept(s.Data)
	if err != nil {
		return kept{}, err.Error() + ": delete it, and new authorities are made"
	}
	return k, ""
}

func readKept(data map[string][]byte) (k kept, err error) {
	if k.signing, err = readAuthority(data, slotSigning); err != nil {
		return kept{}, err
	}
	if k.next, err = readAuthority(data, slotNext); err != nil {
		return kept{}, err
	}
	k.former, err = readCertificates(data[slotFormer+suffixChain])
	if err != nil {
		return kept{}, fmt.Errorf("its %s cannot be read: %w", slotFormer+suffixChain, err)
	}
	if k.signing == nil && k.next == nil {
		return kept{}, errors.New("it has no authority")
	}
	return k, nil
}

// readAuthority reads one with its key, nil where there is none in the slot.
func readAuthority(data map[string][]byte, slot string) (*Authority, error) {
	text := data[slot+suffixChain]
	if text == nil {
		return nil, nil
	}
	all, err := readCertificates(text)
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("its %s is not one certificate", slot+suffixChain)
	}
	block, _ := pem.Decode(data[slot+suffixKey])
	if block == nil {
		return nil, fmt.Errorf("it has no %s", slot+suffixKey)
	}
	read, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, is := read.(*ecdsa.PrivateKey)
	if err != nil || !is || !key.PublicKey.Equal(all[0].Certificate.PublicKey) {
		return nil, fmt.Errorf("its %s is not that of its %s", slot+suffixKey, slot+suffixChain)
	}
	all[0].key = key
	return all[0], nil
}

func readCertificates(text []byte) (out []*Authority, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("it is no PEM")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out, text = append(out, &Authority{Certificate: certificate}), rest
	}
	return out, nil
}

// formerSight is that of these former ones beside who signs now: before that they may sign themselves.
func (k kept) formerSight() sight {
	ids := []string{k.signing.id()}
	for _, a := range k.former {
		ids = append(ids, a.id())
	}
	return sight{slot: slotFormer, id: strings.Join(ids, " ")}
}
