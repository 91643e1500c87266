import sparkhaven

db = sparkhaven.Database("db")
trades = db.table("Equity.Trade").snapshot()  # later commits and merges do not change it
table = trades.to_arrow(columns=["Sym", "Price"], where="Size >= 100", dates=["2026-11-20"])
print(table.num_rows, table["Sym"].to_pylist(), trades.epochs)
for batch in trades.to_batches(columns=["Price"]):  # streams: memory holds one batch
    print(batch.num_rows)
