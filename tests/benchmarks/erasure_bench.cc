/// Encode, decode, partial sums and CRC32C, next to bare ISA-L loops over the same buffers.
///
/// Bytes are user bytes: the data chunks that are encoded, read or checked.

#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include <benchmark/benchmark.h>
#include <isa-l/crc.h>
#include <isa-l/erasure_code.h>

#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "erasure/code.h"
#include "erasure/multiply.h"
#include "erasure/repair_equation.h"
#include "tests/erasure/encode_row.h"

namespace kintsugi::erasure {
namespace {

constexpr uint32_t kDataChunks = 6;
constexpr uint32_t kParityChunks = 3;
constexpr uint32_t kChunks = kDataChunks + kParityChunks;

// One row: k cells and m parity cells of random bytes. Every benchmark of a size uses the same memory.
struct Row {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t cell_bytes;
  std::unique_ptr<std::byte, Free> memory;
  std::vector<std::span<std::byte>> cells;

  explicit Row(size_t bytes) : cell_bytes(bytes) {
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes * kChunks)));
    std::mt19937_64 random(1);
    for (size_t i = 0; i < bytes * kChunks; ++i)
      memory.get()[i] = static_cast<std::byte>(random());
    for (uint32_t i = 0; i < kChunks; ++i)
      cells.emplace_back(memory.get() + i * bytes, bytes);
  }

  static Row& of(size_t bytes) {
    static std::map<size_t, std::unique_ptr<Row>> rows;
    auto& row = rows[bytes];
    if (!row) row = std::make_unique<Row>(bytes);
    return *row;
  }

  std::vector<std::span<const std::byte>> inputs(std::span<const uint32_t> indices) const {
    std::vector<std::span<const std::byte>> result;
    for (const uint32_t index : indices)
      result.emplace_back(cells[index]);
    return result;
  }
  std::vector<std::span<std::byte>> outputs(std::span<const uint32_t> indices) const {
    std::vector<std::span<std::byte>> result;
    for (const uint32_t index : indices)
      result.push_back(cells[index]);
    return result;
  }
  std::vector<unsigned char*> pointers(std::span<const uint32_t> indices) const {
    std::vector<unsigned char*> result;
    for (const uint32_t index : indices)
      result.push_back(reinterpret_cast<unsigned char*>(cells[index].data()));
    return result;
  }
};

void report(benchmark::State& state, size_t bytes) {
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) * state.iterations() / 1e9, benchmark::Counter::kIsRate);
}

const std::vector<uint32_t> kData = {0, 1, 2, 3, 4, 5};
const std::vector<uint32_t> kParity = {6, 7, 8};
const std::vector<uint32_t> kLost = {0, 2, 4};
const std::vector<uint32_t> kLeft = {1, 3, 5, 6, 7, 8};

void bare(benchmark::State& state, std::span<const uint8_t> matrix, std::span<const uint32_t> from,
          std::span<const uint32_t> to) {
  Row& row = Row::of(state.range(0));
  std::vector<uint8_t> tables(matrix.size() * 32);
  ec_init_tables(from.size(), to.size(), const_cast<uint8_t*>(matrix.data()), tables.data());
  auto in = row.pointers(from);
  auto out = row.pointers(to);
  for (auto _ : state) {
    ec_encode_data(row.cell_bytes, from.size(), to.size(), tables.data(), in.data(), out.data());
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes * from.size());
}

void encode_bare(benchmark::State& state) {
  const auto code = Code::get({.k = kDataChunks, .m = kParityChunks});
  bare(state, code->generator().subspan(kDataChunks * kDataChunks), kData, kParity);
}

void encode(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  const auto code = Code::get({.k = kDataChunks, .m = kParityChunks});
  const auto cells = row.inputs(kData);
  const auto parity = row.outputs(kParity);
  for (auto _ : state) {
    encode_row(*code, cells, parity);
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes * kDataChunks);
}

void decode_bare(benchmark::State& state) {
  bare(state, Code::get({.k = kDataChunks, .m = kParityChunks})->decode_matrix(kLeft, kLost), kLeft, kLost);
}

void decode(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  const auto plan = Code::get({.k = kDataChunks, .m = kParityChunks})->plan_decode(kLeft, kLost);
  const auto in = row.inputs(plan->helpers);
  const auto out = row.outputs(kLost);
  for (auto _ : state) {
    plan->decode(in, out);
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes * kDataChunks);
}

// Codes of 12 data and 4 parity chunks. Bare: what ISA-L takes for a dense matrix of that size.
struct Wide {
  static constexpr uint32_t kData = 12, kParity = 4;
  std::vector<std::vector<std::byte>> chunks;
  std::vector<std::span<const std::byte>> cells;
  std::vector<std::span<std::byte>> parity;

  explicit Wide(size_t bytes) {
    std::mt19937_64 random(1);
    for (uint32_t i = 0; i < kData + kParity; ++i) {
      auto& chunk = chunks.emplace_back(bytes);
      for (auto& byte : chunk)
        byte = static_cast<std::byte>(random());
    }
    for (uint32_t i = 0; i < kData; ++i)
      cells.emplace_back(chunks[i]);
    for (uint32_t i = 0; i < kParity; ++i)
      parity.emplace_back(chunks[kData + i]);
  }
};

Policy wide_policy(const char* name) {
  auto policy = Policy::parse(name);
  KINTSUGI_ASSERT(policy);
  return *policy;
}

void encode_wide_bare(benchmark::State& state) {
  Wide row(state.range(0));
  const auto matrix = Code::get({.k = Wide::kData, .m = Wide::kParity})->generator().subspan(12 * 12);
  std::vector<uint8_t> tables(matrix.size() * 32);
  ec_init_tables(Wide::kData, Wide::kParity, const_cast<uint8_t*>(matrix.data()), tables.data());
  std::vector<unsigned char*> in, out;
  for (uint32_t i = 0; i < Wide::kData + Wide::kParity; ++i)
    (i < Wide::kData ? in : out).push_back(reinterpret_cast<unsigned char*>(row.chunks[i].data()));
  for (auto _ : state) {
    ec_encode_data(state.range(0), Wide::kData, Wide::kParity, tables.data(), in.data(), out.data());
    benchmark::ClobberMemory();
  }
  report(state, state.range(0) * Wide::kData);
}

void encode_wide(benchmark::State& state, const char* policy) {
  Wide row(state.range(0));
  const auto code = Code::get(wide_policy(policy));
  for (auto _ : state) {
    encode_row(*code, row.cells, row.parity);
    benchmark::ClobberMemory();
  }
  report(state, state.range(0) * Wide::kData);
}

// The chunks 0.. are lost, as many as given; bytes are those of the cells that come out.
void decode_wide(benchmark::State& state, const char* policy) {
  Wide row(state.range(0));
  const auto code = Code::get(wide_policy(policy));
  const size_t sub_cell = state.range(0) / code->rows();
  std::vector<uint32_t> lost(state.range(1)), left(16 - lost.size());
  std::iota(lost.begin(), lost.end(), 0);
  std::iota(left.begin(), left.end(), lost.size());
  const auto plan = code->plan_decode(left, lost);
  std::vector<std::span<const std::byte>> in;
  std::vector<std::span<std::byte>> out;
  for (const uint32_t helper : plan->helpers) {
    for (uint32_t t = 0; t < code->rows(); ++t)
      in.push_back(std::span(row.chunks[helper]).subspan(t * sub_cell, sub_cell));
  }
  for (const uint32_t chunk : lost) {
    for (uint32_t t = 0; t < code->rows(); ++t)
      out.push_back(std::span(row.chunks[chunk]).subspan(t * sub_cell, sub_cell));
  }
  for (auto _ : state) {
    plan->decode(in, out);
    benchmark::ClobberMemory();
  }
  report(state, state.range(0) * lost.size());
}

void make_equation(benchmark::State& state, const char* policy) {
  const auto code = Code::get(wide_policy(policy));
  const std::vector<uint32_t> lost = {3};
  std::vector<uint32_t> candidates;
  for (uint32_t i = 0; i < 16; ++i) {
    if (i != lost[0]) candidates.push_back(i);
  }
  for (auto _ : state)
    benchmark::DoNotOptimize(repair_equation(*code, lost, candidates));
  state.counters["symbols"] = repair_equation(*code, lost, candidates)->symbols();
}

void plan_decode(benchmark::State& state) {
  const auto code = Code::get({.k = kDataChunks, .m = kParityChunks});
  for (auto _ : state)
    benchmark::DoNotOptimize(code->plan_decode(kLeft, kLost));
}

void multiply_add_bare(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  uint8_t coefficient = 0x8e;
  std::vector<uint8_t> table(32);
  ec_init_tables(1, 1, &coefficient, table.data());
  auto* in = reinterpret_cast<unsigned char*>(row.cells[0].data());
  auto* sum = reinterpret_cast<unsigned char*>(row.cells[6].data());
  for (auto _ : state) {
    gf_vect_mad(row.cell_bytes, 1, 0, table.data(), in, sum);
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes);
}

void multiply_add_one(benchmark::State& state, uint8_t coefficient) {
  Row& row = Row::of(state.range(0));
  const MultiplyTable table(std::span(&coefficient, 1));
  const auto sums = row.outputs(std::vector<uint32_t>{6});
  for (auto _ : state) {
    table.multiply_add(row.cells[0], sums);
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes);
}

void multiply_add(benchmark::State& state) {
  multiply_add_one(state, 0x8e);
}
void add(benchmark::State& state) {
  multiply_add_one(state, 1);
}

void multiply_add_unprepared(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  const std::vector<uint8_t> coefficients = {0x8e};
  const auto sums = row.outputs(std::vector<uint32_t>{6});
  for (auto _ : state) {
    erasure::multiply_add(coefficients, row.cells[0], sums);
    benchmark::ClobberMemory();
  }
  report(state, row.cell_bytes);
}

void crc_bare(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  auto* bytes = reinterpret_cast<unsigned char*>(row.cells[0].data());
  for (auto _ : state)
    benchmark::DoNotOptimize(crc32_iscsi(bytes, row.cell_bytes, 0xffffffff));
  report(state, row.cell_bytes);
}

void crc(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(crc32c(row.cells[0]));
  report(state, row.cell_bytes);
}

void crc_blocks_and_chunk(benchmark::State& state) {
  Row& row = Row::of(state.range(0));
  for (auto _ : state) {
    const auto blocks = crc32c_blocks(row.cells[0]);
    benchmark::DoNotOptimize(crc32c_of_blocks(blocks, row.cell_bytes));
  }
  report(state, row.cell_bytes);
}

constexpr int64_t kBlock = 64 << 10, kCell = 1 << 20;

BENCHMARK(encode_bare)->Arg(kBlock)->Arg(kCell);
BENCHMARK(encode)->Arg(kBlock)->Arg(kCell);
BENCHMARK(decode_bare)->Arg(kBlock)->Arg(kCell);
BENCHMARK(decode)->Arg(kBlock)->Arg(kCell);
BENCHMARK(plan_decode);
BENCHMARK(encode_wide_bare)->Arg(kCell);
BENCHMARK_CAPTURE(encode_wide, rs, "rs-12-4-1024k")->Arg(kCell);
BENCHMARK_CAPTURE(encode_wide, lrc, "lrc-12-2-2-1024k")->Arg(kCell);
BENCHMARK_CAPTURE(encode_wide, rrs, "rrs-12-4-1024k")->Arg(kCell);
BENCHMARK_CAPTURE(decode_wide, rs, "rs-12-4-1024k")->Args({kCell, 1})->Args({kCell, 3});
BENCHMARK_CAPTURE(decode_wide, lrc, "lrc-12-2-2-1024k")->Args({kCell, 1})->Args({kCell, 3});
BENCHMARK_CAPTURE(decode_wide, rrs, "rrs-12-4-1024k")->Args({kCell, 1})->Args({kCell, 3});
BENCHMARK_CAPTURE(make_equation, rs, "rs-12-4-1024k");
BENCHMARK_CAPTURE(make_equation, lrc, "lrc-12-2-2-1024k");
BENCHMARK_CAPTURE(make_equation, rrs, "rrs-12-4-1024k");
BENCHMARK(multiply_add_bare)->Arg(4096)->Arg(kBlock)->Arg(kCell);
BENCHMARK(multiply_add)->Arg(4096)->Arg(kBlock)->Arg(kCell);
BENCHMARK(multiply_add_unprepared)->Arg(4096)->Arg(kBlock);
BENCHMARK(add)->Arg(4096)->Arg(kBlock)->Arg(kCell);
BENCHMARK(crc_bare)->Arg(kBlock)->Arg(kCell);
BENCHMARK(crc)->Arg(kBlock)->Arg(kCell);
BENCHMARK(crc_blocks_and_chunk)->Arg(kCell);

}  // namespace
}  // namespace kintsugi::erasure

BENCHMARK_MAIN();
