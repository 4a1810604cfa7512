//go:build !(cgo && unix)

package fipstls

// The numbers of the border where no C header says them.

type (
	contextText int
	contextAdd  int
	stepOp      int
	stepStatus  int32
)

const (
	textCiphers12 contextText = iota
	textCiphers13
	textGroups
	textSignatures
	textCaFile
	textCaPath
)

const (
	addTrust contextAdd = iota
	addTrustAux
	addCRL
	addCertificate
	addChain
	addClientCA
)

const (
	opHandshake stepOp = iota
	opRead
	opWrite
	opShutdown
)

const (
	statusOK stepStatus = iota
	statusWantRead
	statusClosed
	statusFailed
)
