// WindowReader: when a chunk of the window comes by a tree.
#include <algorithm>

#include "client/lib/read/window_reader.h"

namespace kintsugi::client {

bool WindowReader::may_take_tree(const erasure::Policy& policy, const Window& window) {
  const uint64_t range = window.chunk_end - window.chunk_begin;
  return window.wanted.size() < policy.k && (policy.k - 1) * range >= kTreeSavesBytes;
}

bool WindowReader::tree_pays(uint32_t chunk) const {
  size_t there = 0;  // without asking anybody for more
  for (uint32_t other = 0; other < policy_.chunks(); ++other) {
    const bool coming = states_[other] == State::kRunning || states_[other] == State::kDone;
    there += other != chunk && (coming || chunk_bytes(other) == 0);
  }
  const bool in_local_group = policy_.local > 0 && chunk < policy_.k + policy_.local;
  const size_t needed = in_local_group ? policy_.k / policy_.local : policy_.k;
  return needed > there + 1 && (needed - there - 1) * chunk_bytes(chunk) >= kTreeSavesBytes;
}

bool WindowReader::start_tree() {
  if (!tree_allowed_ || tree_) return false;
  const auto not_here = [this](uint32_t chunk) { return states_[chunk] != State::kDone; };
  const auto missing = std::find_if(window_.wanted.begin(), window_.wanted.end(), not_here);
  if (missing == window_.wanted.end() || std::count_if(missing, window_.wanted.end(), not_here) > 1)
    return false;
  if (!tree_pays(*missing)) return false;
  tree_chunk_ = *missing;
  const uint64_t bytes = chunk_bytes(tree_chunk_);
  std::vector<std::span<std::byte>> into;
  for (uint64_t at = 0; at < bytes; at += Memory::kBufferBytes) {
    tree_buffers_.push_back(core_.memory.take());
    into.push_back(tree_buffers_.back().first(std::min<uint64_t>(bytes - at, Memory::kBufferBytes)));
  }
  LostRange range = lost_range(stripe_, tree_chunk_, window_.chunk_begin, window_.chunk_begin + bytes);
  tree_ = std::make_shared<TreeFetch>(core_, context_, std::move(range),
                                      kTreeWindowBuffers * Memory::kBufferBytes, std::move(into), changed_);
  core_.background.spawn(TreeFetch::run(tree_));
  return true;
}

void WindowReader::settle_tree() {
  if (!tree_ || !tree_->done() || tree_buffers_.empty()) return;
  if (!tree_->ok()) {
    tree_buffers_.clear();
    failures_ += (failures_.empty() ? "" : "; ") + tree_->status().to_string();
  } else if (states_[tree_chunk_] == State::kDone) {
    tree_buffers_.clear();  // the chunk itself was first
  } else {
    decoded_[tree_chunk_] = std::move(tree_buffers_);
    tree_buffers_.clear();
    states_[tree_chunk_] = State::kDone;
    last_done_ = core_.now();
  }
}

void WindowReader::cancel_tree() {
  if (!tree_ || tree_->done()) return;
  tree_->cancel();
  tree_buffers_.clear();
}

}  // namespace kintsugi::client
