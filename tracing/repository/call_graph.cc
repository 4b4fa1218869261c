#include "tracing/repository/call_graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include <elf.h>

namespace kintsugi::tracing {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kReferenceBytes = 4;

/// All functions by the address at which they begin. Those with sleds have the numbers of the map, the others follow.
class Functions {
 public:
  Functions(const SledMap& sleds, const std::vector<uint64_t>& others) {
    for (const SleddedFunction& function : sleds.functions)
      add(function.address);
    sledded_ = static_cast<uint32_t>(addresses_.size());
    for (const uint64_t address : others)
      add(address);
    if (addresses_.empty()) return;
    const auto [first, last] = std::ranges::minmax(addresses_);
    first_ = first;
    is_start_.resize(last - first + 1);
    for (const uint64_t address : addresses_)
      is_start_[address - first_] = true;
  }
  /// 0: no function begins there. A bit for each address answers first: nearly all are none.
  uint32_t at(uint64_t address) const {
    const uint64_t offset = address - first_;
    if (offset >= is_start_.size() || !is_start_[offset]) return 0;
    return numbers_.find(address)->second;
  }
  bool has_sleds(uint32_t function) const { return function <= sledded_; }
  const std::vector<uint64_t>& addresses() const {
    return addresses_;
  }  ///< the address of function N is element N - 1

 private:
  void add(uint64_t address) {
    if (numbers_.emplace(address, static_cast<uint32_t>(addresses_.size() + 1)).second)
      addresses_.push_back(address);
  }

  uint64_t first_ = 0;
  uint32_t sledded_ = 0;
  std::vector<bool> is_start_;
  std::vector<uint64_t> addresses_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

struct Extent {
  uint64_t begin = 0, end = 0;
  uint32_t function = 0;
};

/// The code of each function: up to where the next one begins.
std::vector<Extent> extents_of(const Functions& functions, uint64_t end_of_code) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < functions.addresses().size(); ++i)
    extents.push_back({functions.addresses()[i], end_of_code, static_cast<uint32_t>(i + 1)});
  std::ranges::sort(extents, {}, &Extent::begin);
  for (size_t i = 0; i + 1 < extents.size(); ++i)
    extents[i].end = std::min(end_of_code, extents[i + 1].begin);
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

References references_of(Bytes code, uint64_t address, const Functions& functions) {
  References found;
  const auto byte = [&](uint64_t at) { return static_cast<uint8_t>(code[at]); };
  for (uint64_t at = 1; at < code.size(); ++at) {
    found.indirect |= is_indirect(byte(at - 1), byte(at));
    if (at + kReferenceBytes > code.size()) continue;
    int32_t distance = 0;
    std::memcpy(&distance, code.data() + at, sizeof(distance));
    const uint32_t function =
        functions.at(address + at + kReferenceBytes + static_cast<uint64_t>(int64_t{distance}));
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
  if (extent.function > map.functions.size()) return;
  constexpr uint64_t kSledBytes = 11;
  constexpr std::byte kTrap{0xcc};
  const SleddedFunction& of = map.functions[extent.function - 1];
  for (const Sled& sled : std::span(map.sleds).subspan(of.first_sled, of.sleds))
    if (sled.address >= extent.begin && sled.address + kSledBytes <= extent.end)
      std::ranges::fill(code.subspan(sled.address - extent.begin, kSledBytes), kTrap);
}

/// Functions whose addresses stand in tables of the data.
void add_table_entries(const ElfImage& image, const Functions& functions, std::vector<uint32_t>& taken) {
  for (const ElfImage::Section& section : image.sections()) {
    if (section.type != SHT_RELA) continue;
    for (Bytes left = section.bytes; left.size() >= sizeof(Elf64_Rela);
         left = left.subspan(sizeof(Elf64_Rela))) {
      Elf64_Rela relocation;
      std::memcpy(&relocation, left.data(), sizeof(relocation));
      if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_RELATIVE) continue;
      if (const uint32_t function = functions.at(static_cast<uint64_t>(relocation.r_addend)); function != 0)
        taken.push_back(function);
    }
  }
}

void sort_and_unite(std::vector<uint32_t>& functions) {
  std::ranges::sort(functions);
  functions.erase(std::ranges::unique(functions).begin(), functions.end());
}

/// Functions without sleds cannot have the next ones patched when they are entered, so who calls one calls what it calls.
class Through {
 public:
  Through(const Functions& functions, const std::vector<References>& references)
      : functions_(functions), references_(references), seen_at_(references.size()) {}

  /// What can be reached from those functions that has sleds. The same functions may come several times.
  References from(const std::vector<uint32_t>& begin) {
    ++round_;
    References found;
    std::vector<uint32_t> left = begin;
    while (!left.empty()) {
      const uint32_t function = left.back();
      left.pop_back();
      if (functions_.has_sleds(function)) {
        found.called.push_back(function);
        continue;
      }
      if (std::exchange(seen_at_[function - 1], round_) == round_) continue;
      const References& next = references_[function - 1];
      found.indirect |= next.indirect;
      left.insert(left.end(), next.called.begin(), next.called.end());
      left.insert(left.end(), next.taken.begin(), next.taken.end());
    }
    sort_and_unite(found.called);
    return found;
  }

 private:
  const Functions& functions_;
  const std::vector<References>& references_;
  std::vector<uint32_t> seen_at_;  ///< index: function - 1; the last round in which it was met
  uint32_t round_ = 0;
};

}  // namespace

CallGraph find_calls(const ElfImage& image, const SledMap& sleds) {
  CallGraph graph;
  graph.begin.assign(sleds.functions.size() + 1, 0);
  graph.indirect.assign(sleds.functions.size(), 0);
  const auto text = image.section(".text");
  if (!text) return graph;
  std::vector<uint64_t> all = image.unwound_functions();
  std::erase_if(all, [&](uint64_t address) { return address - text->address >= text->bytes.size(); });
  const Functions functions(sleds, all);
  std::vector<References> references(functions.addresses().size());
  std::vector<std::byte> code;
  for (const Extent& extent : extents_of(functions, text->address + text->bytes.size())) {
    if (extent.begin < text->address || extent.begin >= extent.end) continue;
    const Bytes original = text->bytes.subspan(extent.begin - text->address, extent.end - extent.begin);
    code.assign(original.begin(), original.end());
    blank_sleds(code, extent, sleds);
    References& found = references[extent.function - 1] = references_of(code, extent.begin, functions);
    sort_and_unite(found.called);
    sort_and_unite(found.taken);
    std::ranges::copy(found.taken, std::back_inserter(graph.taken));
  }
  add_table_entries(image, functions, graph.taken);
  sort_and_unite(graph.taken);
  Through through(functions, references);
  graph.taken = through.from(graph.taken).called;
  for (size_t i = 0; i < sleds.functions.size(); ++i) {
    References& own = references[i];
    own.called.insert(own.called.end(), own.taken.begin(), own.taken.end());
    References reached = through.from(own.called);
    std::erase(reached.called, i + 1);
    graph.indirect[i] = own.indirect || reached.indirect;
    graph.callees.insert(graph.callees.end(), reached.called.begin(), reached.called.end());
    graph.begin[i + 1] = static_cast<uint32_t>(graph.callees.size());
  }
  return graph;
}

}  // namespace kintsugi::tracing
