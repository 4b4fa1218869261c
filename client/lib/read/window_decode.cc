#include "client/lib/read/window_decode.h"

#include <array>

#include "client/lib/read/strips.h"

namespace kintsugi::client {

Status decode_missing(WindowChunks& chunks, Memory& memory) {
  const StripeWindow& of = chunks.window();
  std::vector<uint32_t> missing;
  std::vector<std::vector<runtime::Buffer>> decoded;
  for (const uint32_t chunk : of.window.wanted) {
    if (chunks.state(chunk) == WindowChunks::State::kDone || of.chunk_bytes(chunk) == 0) continue;
    missing.push_back(chunk);
  }
  KINTSUGI_ASSIGN(const erasure::DecodePlan plan,
                  chunks.code().plan_decode(chunks.in_state(WindowChunks::State::kDone), missing));
  for (const uint32_t chunk : missing) {
    std::vector<runtime::Buffer>& buffers = decoded.emplace_back();
    for (size_t i = 0; i < Memory::buffers_for(of.chunk_bytes(chunk)); ++i)
      buffers.push_back(memory.take());
  }
  std::array<std::span<const std::byte>, erasure::kMaxSymbols> in;
  std::array<std::span<std::byte>, erasure::kMaxSymbols> out;
  const uint32_t rows = of.policy.rows();
  const size_t inputs = plan.helpers.size() * rows, outputs = missing.size() * rows;
  const auto decode_strip = [&](std::span<const uint64_t> begins, uint64_t bytes) {
    for (size_t i = 0; i < inputs; ++i) {
      const uint32_t chunk = plan.helpers[i / rows];
      in[i] = strip_part(begins[i % rows], bytes, of.chunk_bytes(chunk),
                         [&](size_t index) { return chunks.part(chunk, index); });
    }
    for (size_t i = 0; i < outputs; ++i) {
      out[i] = strip_part(begins[i % rows], bytes, of.chunk_bytes(missing[i / rows]),
                          [&](size_t index) { return decoded[i / rows][index].span(); });
    }
    plan.decode(std::span(in).first(inputs), std::span(out).first(outputs));
  };
  for_each_strip(of.policy, of.window.chunk_end - of.window.chunk_begin, decode_strip);
  for (size_t i = 0; i < missing.size(); ++i)
    chunks.put(missing[i], std::move(decoded[i]));
  return {};
}

}  // namespace kintsugi::client
