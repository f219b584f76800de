package main

// The certificate authorities that Mozilla trusts, as of this version: the image has no others.
// They count where the system has none, which SSL_CERT_FILE and SSL_CERT_DIR may give it.
import _ "golang.org/x/crypto/x509roots/fallback"
