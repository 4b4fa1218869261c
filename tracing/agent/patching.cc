// Compiled as payload.cc is.
#include "tracing/agent/patching.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tracing/agent/system_call.h"

namespace kintsugi::tracing {

namespace {

constexpr uint8_t kEntrySled[kSledBytes] = {0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00};
constexpr uint8_t kExitSled[kSledBytes] = {0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00};
/// One instruction of eleven bytes, a call or a jump behind prefixes that mean nothing to it: as in the sled itself, there is no place
/// in its middle at which a thread could stand.
constexpr uint8_t kPrefix = 0x2e, kCall = 0xe8, kJump = 0xe9;
constexpr uint32_t kPrefixes = 6;

const uint8_t* untouched(const ImageSleds::At& sled) {
  return sled.is_exit ? kExitSled : kEntrySled;
}

/// The first two bytes of a sled decide what it does, and are written at once: it stands on an even address.
void write_front(uint64_t address, uint8_t first, uint8_t second) {
  __atomic_store_n(reinterpret_cast<uint16_t*>(address), static_cast<uint16_t>(second << 8 | first),
                   __ATOMIC_RELEASE);
}

void write_byte(uint64_t address, uint8_t value) {
  *reinterpret_cast<volatile uint8_t*>(address) = value;
}

bool is_untouched(const ImageSleds::At& sled) {
  const auto* const code = reinterpret_cast<const volatile uint8_t*>(sled.address);
  for (uint32_t i = 0; i < kSledBytes; ++i)
    if (code[i] != untouched(sled)[i]) return false;
  return true;
}

/// A function's sleds are either all touched or none: what somebody else changed, as a debugger does, is left alone.
bool can_be_patched(const ImageSleds& image, uint32_t function) {
  for (uint32_t i = image.first[function - 1]; i < image.first[function]; ++i)
    if (image.sleds[i].to_stub == 0 || !is_untouched(image.sleds[i])) return false;
  return true;
}

// Of a function that is being patched: its sleds lead to their stubs once their first bytes are written.
constexpr uint8_t kUnpatched = 0, kPrepared = 1, kPatched = 2, kLeftAlone = 3;

void prepare(const ImageSleds::At& sled) {
  const auto distance = static_cast<uint32_t>(sled.to_stub);
  for (uint32_t i = 2; i < kPrefixes; ++i)
    write_byte(sled.address + i, kPrefix);
  write_byte(sled.address + kPrefixes, sled.is_exit ? kJump : kCall);
  for (uint32_t i = 0; i < 4; ++i)
    write_byte(sled.address + kPrefixes + 1 + i, static_cast<uint8_t>(distance >> 8 * i));
}

void restore_behind_front(const ImageSleds::At& sled) {
  for (uint32_t i = 2; i < kSledBytes; ++i)
    write_byte(sled.address + i, untouched(sled)[i]);
}

template <class Action>
void for_sleds(const ImageSleds& image, uint32_t function, Action action) {
  for (uint32_t i = image.first[function - 1]; i < image.first[function]; ++i)
    action(image.sleds[i]);
}

}  // namespace

void synchronise_code() {
  system_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
}

bool make_writable(Recording& recording, bool writable) {
  const long rights = PROT_READ | PROT_EXEC | (writable ? PROT_WRITE : 0);
  if (system_call(SYS_mprotect, static_cast<long>(recording.image->text),
                  static_cast<long>(recording.image->text_bytes), rights) != 0)
    return false;
  recording.writable = writable;
  return true;
}

void patch_functions(Recording& recording, const uint32_t* functions, uint32_t count) {
  const ImageSleds& image = *recording.image;
  uint32_t prepared = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t function = functions[i];
    uint8_t& state = recording.patched[function - 1];
    if (state != kUnpatched) continue;
    state = can_be_patched(image, function) ? kPrepared : kLeftAlone;
    if (state == kLeftAlone) continue;
    for_sleds(image, function, prepare);
    ++prepared;
  }
  if (prepared == 0) return;
  synchronise_code();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t function = functions[i];
    uint8_t& state = recording.patched[function - 1];
    if (state != kPrepared) continue;
    state = kPatched;
    for_sleds(image, function,
              [](const ImageSleds::At& sled) { write_front(sled.address, kPrefix, kPrefix); });
  }
  recording.patched_count.add(prepared);
}

void unpatch_all(Recording& recording) {
  const ImageSleds& image = *recording.image;
  const auto for_patched = [&](auto action) {
    for (uint32_t function = 1; function <= image.functions; ++function)
      if (recording.patched[function - 1] == kPatched) for_sleds(image, function, action);
  };
  for_patched(
      [](const ImageSleds::At& sled) { write_front(sled.address, untouched(sled)[0], untouched(sled)[1]); });
  // No thread fetches the rest of a sled any more whose beginning it fetched before.
  synchronise_code();
  for_patched(restore_behind_front);
  for (uint32_t i = 0; i < image.functions; ++i)
    recording.patched[i] = kUnpatched;
}

}  // namespace kintsugi::tracing
