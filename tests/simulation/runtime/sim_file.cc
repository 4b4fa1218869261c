#include "tests/simulation/runtime/sim_file.h"

#include <algorithm>
#include <cstring>

#include "common/base/assert.h"
#include "common/runtime/disk.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kPageBytes = FileImage::kPageBytes;

size_t pages_for(uint64_t bytes) {
  return static_cast<size_t>((bytes + kPageBytes - 1) / kPageBytes);
}

/// A new page, whose bytes are not set.
FileImage::PagePtr new_page() {
  return FileImage::PagePtr(new FileImage::Page);
}

const FileImage::Page& zero_page() {
  static const FileImage::Page kZeros{};
  return kZeros;
}

/// Calls `visit(page, offset in page, offset in range, bytes)` for every page a range touches.
template <class Visit>
void for_each_part(uint64_t offset, size_t bytes, Visit visit) {
  for (size_t done = 0; done < bytes;) {
    const size_t page = static_cast<size_t>((offset + done) / kPageBytes);
    const size_t within = static_cast<size_t>((offset + done) % kPageBytes);
    const size_t part = std::min(bytes - done, kPageBytes - within);
    visit(page, within, done, part);
    done += part;
  }
}

}  // namespace

size_t FileImage::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset >= size_) return 0;
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(into.size(), size_ - offset));
  for_each_part(offset, bytes, [&](size_t page, size_t within, size_t done, size_t part) {
    const Page& from = pages_[page] ? *pages_[page] : zero_page();
    std::memcpy(into.data() + done, from.data() + within, part);
  });
  return bytes;
}

FileImage::Page& FileImage::writable_page(size_t index) {
  PagePtr& page = pages_[index];
  if (!page) {
    page = new_page();
    page->fill(std::byte{0});
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);
  }
  return *page;
}

void FileImage::write(uint64_t offset, std::span<const std::byte> from) {
  if (offset + from.size() > size_) resize(offset + from.size());
  for_each_part(offset, from.size(), [&](size_t index, size_t within, size_t done, size_t part) {
    PagePtr& page = pages_[index];
    if (part == kPageBytes && std::memcmp(from.data() + done, zero_page().data(), kPageBytes) == 0) {
      page.reset();  // a page of zeros costs no memory: large clusters are simulated with files of zeros
      return;
    }
    if (part == kPageBytes && (!page || page.use_count() > 1)) page = new_page();
    std::memcpy(writable_page(index).data() + within, from.data() + done, part);
  });
}

void FileImage::resize(uint64_t bytes) {
  if (bytes < size_) {
    const size_t last = static_cast<size_t>(bytes / kPageBytes);
    const size_t kept = static_cast<size_t>(bytes % kPageBytes);
    if (kept > 0 && pages_[last]) {
      Page& page = writable_page(last);
      std::memset(page.data() + kept, 0, kPageBytes - kept);
    }
  }
  pages_.resize(pages_for(bytes));
  size_ = bytes;
}

void SimFileContent::write(uint64_t offset, std::span<const std::byte> from) {
  current_.write(offset, from);
  for_each_part(offset, from.size(), [&](size_t page, size_t, size_t, size_t) { dirty_.insert(page); });
}

void SimFileContent::resize(uint64_t bytes) {
  // Bytes that are cut off now and added back before the next sync read as zeros, after a crash too.
  for (size_t page = static_cast<size_t>(bytes / kPageBytes); page < current_.pages(); ++page)
    dirty_.insert(page);
  current_.resize(bytes);
}

void SimFileContent::flip_bit(uint64_t offset, unsigned bit) {
  KINTSUGI_ASSERT(offset < current_.size() && bit < 8);
  const size_t index = static_cast<size_t>(offset / kPageBytes);
  const bool both = index < durable_.pages() && durable_.page(index) == current_.page(index);
  const auto flip = [&](FileImage& image) {
    image.writable_page(index)[offset % kPageBytes] ^= std::byte{static_cast<unsigned char>(1u << bit)};
  };
  flip(current_);
  if (both) {
    durable_.set_page(index, current_.page(index));
  } else if (offset < durable_.size()) {
    flip(durable_);
  }
}

SimFileContent::SyncPoint SimFileContent::begin_sync() {
  SyncPoint point{current_.size(), {}};
  for (const size_t page : dirty_) {
    if (page < current_.pages()) point.pages.emplace_back(page, current_.page(page));
  }
  dirty_.clear();
  return point;
}

void SimFileContent::finish_sync(SyncPoint point) {
  durable_.resize(point.size);
  for (auto& [index, page] : point.pages)
    durable_.set_page(index, std::move(page));
}

void SimFileContent::abandon_sync(const SyncPoint& point) {
  for (const auto& [index, page] : point.pages)
    dirty_.insert(index);
}

void SimFileContent::lose_power(Unsynced unsynced, SimRandom& random) {
  const uint64_t fate = random.below(3);
  const bool drop_all = unsynced == Unsynced::kDropped || (unsynced == Unsynced::kRandom && fate == 0);
  const bool keep_all = unsynced == Unsynced::kKept || (unsynced == Unsynced::kRandom && fate == 1);
  dirty_.clear();
  if (drop_all) {
    current_ = durable_;
    return;
  }
  if (keep_all) {
    durable_ = current_;
    return;
  }
  const uint64_t size = random.coin() ? current_.size() : durable_.size();
  current_.resize(size);
  durable_.resize(size);
  for (size_t index = 0; index < current_.pages(); ++index) {
    if (current_.page(index) == durable_.page(index)) continue;
    const FileImage::PagePtr written = current_.page(index);
    const FileImage::Page& fresh = written ? *written : zero_page();
    FileImage::Page& kept = durable_.writable_page(index);
    for (size_t sector = 0; sector < kPageBytes; sector += kSectorBytes) {
      if (random.coin()) std::memcpy(kept.data() + sector, fresh.data() + sector, kSectorBytes);
    }
  }
  current_ = durable_;
}

}  // namespace kintsugi::simulation
