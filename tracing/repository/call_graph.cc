#include "tracing/repository/call_graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <elf.h>

namespace kintsugi::tracing {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kReferenceBytes = 4;

/// Functions by the address at which they begin. A bit for each address answers first: nearly all are none.
class Starts {
 public:
  explicit Starts(const SledMap& sleds) {
    uint64_t last = 0;
    first_ = ~uint64_t{0};
    for (const SleddedFunction& function : sleds.functions) {
      first_ = std::min(first_, function.address);
      last = std::max(last, function.address);
    }
    if (sleds.functions.empty()) return;
    is_start_.resize(last - first_ + 1);
    for (size_t i = 0; i < sleds.functions.size(); ++i) {
      is_start_[sleds.functions[i].address - first_] = true;
      numbers_.emplace(sleds.functions[i].address, static_cast<uint32_t>(i + 1));
    }
  }
  /// 0: no function begins there.
  uint32_t at(uint64_t address) const {
    const uint64_t offset = address - first_;
    if (offset >= is_start_.size() || !is_start_[offset]) return 0;
    return numbers_.find(address)->second;
  }

 private:
  uint64_t first_ = 0;
  std::vector<bool> is_start_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

struct Extent {
  uint64_t begin = 0, end = 0;
  uint32_t function = 0;
};

/// The code of each function: as its symbol says, and up to the next one without symbols.
std::vector<Extent> extents_of(const ElfImage& image, const SledMap& sleds, uint64_t end_of_code) {
  std::unordered_map<uint64_t, uint64_t> sizes;
  for (const ElfImage::Symbol& symbol : image.functions())
    sizes[symbol.address] = std::max(sizes[symbol.address], symbol.size);
  std::vector<Extent> extents;
  for (size_t i = 0; i < sleds.functions.size(); ++i)
    extents.push_back({sleds.functions[i].address, end_of_code, static_cast<uint32_t>(i + 1)});
  std::ranges::sort(extents, {}, &Extent::begin);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (i + 1 < extents.size()) extents[i].end = std::min(end_of_code, extents[i + 1].begin);
    if (const auto known = sizes.find(extents[i].begin); known != sizes.end() && known->second != 0)
      extents[i].end = std::min(extents[i].end, extents[i].begin + known->second);
  }
  return extents;
}

struct References {
  std::vector<uint32_t> called, taken;
  bool indirect = false;
};

/// What an operand's first byte says when its address is a distance from the instruction.
bool is_relative_to_code(uint8_t operand) {
  return (operand & 0xc7) == 0x05;
}

/// FF /2 and FF /4: call and jump by a register or memory; those by a fixed place go to other libraries.
bool is_indirect(uint8_t first, uint8_t second) {
  const uint8_t operation = second >> 3 & 7;
  return first == 0xff && (operation == 2 || operation == 4) && !is_relative_to_code(second);
}

References references_of(Bytes code, uint64_t address, const Starts& starts) {
  References found;
  const auto byte = [&](uint64_t at) { return static_cast<uint8_t>(code[at]); };
  for (uint64_t at = 1; at < code.size(); ++at) {
    found.indirect |= is_indirect(byte(at - 1), byte(at));
    if (at + kReferenceBytes > code.size()) continue;
    int32_t distance = 0;
    std::memcpy(&distance, code.data() + at, sizeof(distance));
    const uint32_t function =
        starts.at(address + at + kReferenceBytes + static_cast<uint64_t>(int64_t{distance}));
    if (function == 0) continue;
    const uint8_t before = byte(at - 1);
    const bool is_conditional = at >= 2 && byte(at - 2) == 0x0f && (before & 0xf0) == 0x80;
    if (before == 0xe8 || before == 0xe9 || is_conditional) found.called.push_back(function);
    if (is_relative_to_code(before)) found.taken.push_back(function);
  }
  return found;
}

/// The bytes of a sled that are never executed would be taken for distances.
void blank_sleds(std::span<std::byte> code, const Extent& extent, const SledMap& map) {
  constexpr uint64_t kSledBytes = 11;
  constexpr std::byte kTrap{0xcc};
  const SleddedFunction& of = map.functions[extent.function - 1];
  for (const Sled& sled : std::span(map.sleds).subspan(of.first_sled, of.sleds))
    if (sled.address >= extent.begin && sled.address + kSledBytes <= extent.end)
      std::ranges::fill(code.subspan(sled.address - extent.begin, kSledBytes), kTrap);
}

/// Functions whose addresses stand in tables of the data.
void add_table_entries(const ElfImage& image, const Starts& starts, std::vector<uint32_t>& taken) {
  for (const ElfImage::Section& section : image.sections()) {
    if (section.type != SHT_RELA) continue;
    for (Bytes left = section.bytes; left.size() >= sizeof(Elf64_Rela);
         left = left.subspan(sizeof(Elf64_Rela))) {
      Elf64_Rela relocation;
      std::memcpy(&relocation, left.data(), sizeof(relocation));
      if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_RELATIVE) continue;
      if (const uint32_t function = starts.at(static_cast<uint64_t>(relocation.r_addend)); function != 0)
        taken.push_back(function);
    }
  }
}

void sort_and_unite(std::vector<uint32_t>& functions) {
  std::ranges::sort(functions);
  functions.erase(std::ranges::unique(functions).begin(), functions.end());
}

}  // namespace

CallGraph find_calls(const ElfImage& image, const SledMap& sleds) {
  CallGraph graph;
  graph.begin.assign(sleds.functions.size() + 1, 0);
  graph.indirect.assign(sleds.functions.size(), 0);
  const auto text = image.section(".text");
  if (!text) return graph;
  const Starts starts(sleds);
  std::vector<std::vector<uint32_t>> reached(sleds.functions.size());
  std::vector<std::byte> code;
  for (const Extent& extent : extents_of(image, sleds, text->address + text->bytes.size())) {
    if (extent.begin < text->address || extent.begin >= extent.end) continue;
    const Bytes original = text->bytes.subspan(extent.begin - text->address, extent.end - extent.begin);
    code.assign(original.begin(), original.end());
    blank_sleds(code, extent, sleds);
    References found = references_of(code, extent.begin, starts);
    graph.taken.insert(graph.taken.end(), found.taken.begin(), found.taken.end());
    graph.indirect[extent.function - 1] = found.indirect;
    reached[extent.function - 1] = std::move(found.called);
    std::ranges::copy(found.taken, std::back_inserter(reached[extent.function - 1]));
  }
  add_table_entries(image, starts, graph.taken);
  sort_and_unite(graph.taken);
  for (size_t i = 0; i < reached.size(); ++i) {
    sort_and_unite(reached[i]);
    std::erase(reached[i], i + 1);
    graph.callees.insert(graph.callees.end(), reached[i].begin(), reached[i].end());
    graph.begin[i + 1] = static_cast<uint32_t>(graph.callees.size());
  }
  return graph;
}

}  // namespace kintsugi::tracing
