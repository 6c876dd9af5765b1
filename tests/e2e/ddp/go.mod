module weir.example/e2e/ddp

go 1.19

require github.com/gopackage/ddp v0.0.0-20170117053602-652027933df4
