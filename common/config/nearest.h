/// The word that somebody meant who wrote another one.
#pragma once

#include <span>
#include <string_view>

namespace kintsugi::config {

/// The known word that is the fewest changes of a letter away, if those are few; else empty.
std::string_view nearest(std::string_view unknown, std::span<const std::string_view> known);

}  // namespace kintsugi::config
