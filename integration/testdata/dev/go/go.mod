module example.com/edited

go 1.26
