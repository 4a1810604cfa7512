// XMSS and XMSS^MT (RFC 8391, SP 800-208): nodes of a tree from its seed, and verification of a batch.
//
//   nodes    Begin (thread a key) -> Secrets (thread a chain) -> Chains (thread a chain)
//            -> LTree, level by level (thread a pair) -> Tree, level by level (thread a pair) -> Finish (thread a node)
//   verify   Begin (thread an op) -> of each layer: Chains -> LTree, level by level -> Climb (thread an op)
//            -> Check (thread an op)
//
// A leaf is the last value of all chains of a one-time key, compressed. Its values stand side by side, and what a pair
// of neighbours comes to takes the place of its left one: at height k a tree's nodes are 2^k apart, and one that is left
// alone stays where it is. Secret are S_XMSS and what chains pass through up to their ends.
#pragma once

#include "hbs.cuh"

namespace gabion {

// A hash function and n (RFC 8391, section 5.1; SP 800-208, section 5). `PAD` words stand in front of every message: zeros
// and the number of the function.
template <class Hash_, unsigned N_> struct XmssSet {
    using Hash = Hash_;
    static constexpr unsigned BYTES = N_, WORDS = N_ / 4, PAD = N_ == 24 ? 1 : N_ / 4, CHAINS = 2 * N_ + 3, LAST = 15;
    // Whether what stands in front of PRF's message fills a block: toByte(3, 32) || SEED.
    static constexpr bool HAS_STATE = Hash::IS_SHA256 && N_ == 32;
    using Value = uint32_t[WORDS];
};

// What a signature is, and how its bytes lie in `input`.
struct XmssLane {
    uint64_t index;
    uint64_t layers;         // where the values of the lowest layer begin
    uint64_t message;        // where the message of H_msg begins
    uint32_t message_length;
    uint32_t height;         // of a tree
    uint32_t depth;          // layers
    uint32_t reserved;
};

struct XmssArguments {
    const uint8_t *keys;     // root || SEED of each key; nodes: of two keys, the second one the canary's
    const uint8_t *secrets;  // nodes: S_XMSS of both keys
    const uint8_t *input;    // signatures, and messages of H_msg; at any address
    const XmssLane *lanes;   // verify: of each op
    uint32_t *states;        // of each key eight words for PRF, and nodes: eight for PRF_keygen
    uint8_t *signed_;        // verify: what the next layer signs, 64 bytes an op
    uint32_t *values;        // [leaf][chain][word]
    uint8_t *out;            // nodes: n bytes each
    uint32_t *status;        // a Verdict an op
    uint64_t tree;           // nodes: which tree
    uint32_t layer;          // nodes: its layer; verify: which one is climbed
    uint32_t first;          // nodes: the first leaf
    uint32_t low;            // nodes: how high above the leaves
    uint32_t level;          // of LTree and Tree: the height of the children
    uint32_t n;              // nodes with the canary's; or signatures
    uint32_t generation;
};

// --- Addresses (RFC 8391, section 2.5) ------------------------------------------------------------------------------

static constexpr uint32_t XMSS_OTS = 0, XMSS_L_TREE = 1, XMSS_TREE = 2;

struct XmssAddress {
    uint32_t word[8];
};

GABION_FN XmssAddress xmss_address(uint32_t layer, uint64_t tree, uint32_t kind, uint32_t key_pair, uint32_t chain,
                                   uint32_t hash) {
    return XmssAddress{{layer, static_cast<uint32_t>(tree >> 32), static_cast<uint32_t>(tree), kind, key_pair, chain, hash, 0}};
}

// Which leaf of which tree it is, and under which key.
struct XmssLeaf {
    uint32_t key;
    uint32_t layer;
    uint64_t tree;
    uint32_t leaf;
};

// Leaves of nodes, without the canary's.
GABION_FN uint32_t xmss_leaves(const XmssArguments &a) { return (a.n - 1) << a.low; }

// The canary of nodes has one leaf, the first one of all.
GABION_FN XmssLeaf xmss_leaf_of_nodes(const XmssArguments &a, uint32_t i) {
    if (i == xmss_leaves(a))
        return XmssLeaf{1, 0, 0, 0};
    return XmssLeaf{0, a.layer, a.tree, a.first + i};
}

GABION_FN XmssLeaf xmss_leaf_of_lane(const XmssArguments &a, uint32_t op) {
    const XmssLane &lane = a.lanes[op];
    const uint64_t leaf = lane.index >> (a.layer * lane.height);
    return XmssLeaf{op, a.layer, leaf >> lane.height, static_cast<uint32_t>(leaf & ((1u << lane.height) - 1))};
}

GABION_FN XmssLeaf xmss_leaf(const XmssArguments &a, uint32_t i) {
    return a.lanes == nullptr ? xmss_leaf_of_nodes(a, i) : xmss_leaf_of_lane(a, i);
}

// --- Hashes (RFC 8391, section 5.1) ---------------------------------------------------------------------------------

// What PRF needs of a key.
template <class P> struct XmssKey {
    typename P::Value seed;
    Sha256State state;
};

template <class P> GABION_FN XmssKey<P> xmss_key(const XmssArguments &a, uint32_t key) {
    XmssKey<P> out;
    from_bytes<typename P::Hash>(a.keys + 2 * P::BYTES * static_cast<size_t>(key) + P::BYTES, out.seed);
    if (P::HAS_STATE)
        load_value(a.states + 16 * static_cast<size_t>(key), out.state.of);
    return out;
}

// toByte(x, padding) into the first words of a message.
template <class P, unsigned WORDS> GABION_FN void xmss_pad(uint32_t (&m)[WORDS], uint32_t x) {
#pragma unroll
    for (unsigned i = 0; i < P::PAD; i++)
        m[i] = i + 1 == P::PAD ? number<typename P::Hash>(x) : 0;
}

// PRF(SEED, address).
template <class P> GABION_FN void xmss_prf(const XmssKey<P> &key, const XmssAddress &address, typename P::Value &out) {
    using Hash = typename P::Hash;
    if constexpr (P::HAS_STATE) {
        uint32_t m[9];
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            m[i] = address.word[i];
        m[8] = Hash::END;
        Hash::template hash<32, 64>(m, out, key.state);
    } else {
        constexpr unsigned AT = P::PAD + P::WORDS;
        uint32_t m[AT + 9];
        xmss_pad<P>(m, 3);
#pragma unroll
        for (unsigned i = 0; i < P::WORDS; i++)
            m[P::PAD + i] = key.seed[i];
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            m[AT + i] = number<Hash>(address.word[i]);
        m[AT + 8] = Hash::END;
        Hash::template hash<4 * (AT + 8)>(m, out);
    }
}

// RAND_HASH (Algorithm 7): H(PRF(.., 0), left ^ PRF(.., 1) || right ^ PRF(.., 2)).
template <class P>
GABION_FN void xmss_node(const XmssKey<P> &key, XmssAddress address, const typename P::Value &left,
                         const typename P::Value &right, typename P::Value &out) {
    constexpr unsigned AT = P::PAD + P::WORDS;
    uint32_t m[AT + 2 * P::WORDS + 1];
    // Three values that move up as the next one comes, so that the code of PRF is there once.
    typename P::Value of[3];
#pragma unroll
    for (unsigned i = 0; i < P::WORDS; i++)
        of[1][i] = of[2][i] = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 3; i++) {
        address.word[7] = i;
        copy_value(of[1], of[0]);
        copy_value(of[2], of[1]);
        xmss_prf<P>(key, address, of[2]);
    }
    xmss_pad<P>(m, 1);
#pragma unroll
    for (unsigned i = 0; i < P::WORDS; i++) {
        m[P::PAD + i] = of[0][i];
        m[AT + i] = left[i] ^ of[1][i];
        m[AT + P::WORDS + i] = right[i] ^ of[2][i];
    }
    m[AT + 2 * P::WORDS] = P::Hash::END;
    P::Hash::template hash<4 * (AT + 2 * P::WORDS)>(m, out);
}

// The keys and masks of a chain: PRF of addresses that differ in their last two words. With SHA-256 the rounds of the words
// before, which are the same for the chain, are done once.
template <class P, bool IS_SHA256 = P::Hash::IS_SHA256> struct XmssChainPrf {
    const XmssKey<P> &key;
    XmssAddress address;
    GABION_FN XmssChainPrf(const XmssKey<P> &key_, const XmssAddress &address_) : key(key_), address(address_) {}
    GABION_FN void make(uint32_t step, uint32_t last, typename P::Value &out) {
        address.word[6] = step, address.word[7] = last;
        xmss_prf<P>(key, address, out);
    }
};

template <class P> struct XmssChainPrf<P, true> {
    static constexpr unsigned FIXED = P::HAS_STATE ? 6 : 7 + 6;
    Sha256State before, begun;
    uint32_t fixed[FIXED];

    GABION_FN XmssChainPrf(const XmssKey<P> &key, const XmssAddress &address) : before(sha256_start()) {
        if (P::HAS_STATE) {
            before = key.state;
        } else {
            fixed[0] = 3;
#pragma unroll
            for (unsigned i = 0; i < 6; i++)
                fixed[1 + i] = key.seed[i];
        }
#pragma unroll
        for (unsigned i = 0; i < 6; i++)
            fixed[FIXED - 6 + i] = address.word[i];
        uint32_t w[16];
#pragma unroll
        for (unsigned i = 0; i < FIXED; i++)
            w[i] = fixed[i];
        begun = before;
        sha256_rounds<0, FIXED>(begun, w);
    }

    GABION_FN void make(uint32_t step, uint32_t last, typename P::Value &out) const {
        uint32_t w[16];
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            w[i] = i < FIXED ? fixed[i < FIXED ? i : 0] : 0;
        w[FIXED] = step, w[FIXED + 1] = last, w[FIXED + 2] = P::Hash::END;
        if (P::HAS_STATE)
            w[15] = 8 * (64 + 32);
        Sha256State h = begun;
        sha256_rounds<FIXED, 64>(h, w);
        sha256_add(h, before);
        if (!P::HAS_STATE) {
            // 60 bytes and their end leave no room for their length.
#pragma unroll
            for (unsigned i = 0; i < 16; i++)
                w[i] = i == 15 ? 8 * 60 : 0;
            sha256_block(h, w);
        }
#pragma unroll
        for (unsigned i = 0; i < P::WORDS; i++)
            out[i] = h.of[i];
    }
};

// Where a chain's values are.
template <class P> GABION_FN uint32_t *xmss_value(const XmssArguments &a, uint32_t leaf, uint32_t chain) {
    return a.values + (static_cast<size_t>(leaf) * P::CHAINS + chain) * P::WORDS;
}

// --- Kernels --------------------------------------------------------------------------------------------------------

// SHA-256 after toByte(x, 32) || key, where n is 32.
template <class P> GABION_FN void xmss_state(uint32_t x, const uint8_t *key, uint32_t *state) {
    if constexpr (P::HAS_STATE) {
        uint32_t value[8], w[16];
        from_bytes<typename P::Hash>(key, value);
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            w[i] = i == 7 ? x : 0, w[8 + i] = value[i];
        Sha256State h = sha256_start();
        compress<Sha256>(h.of, w);
        store_value(state, h.of);
    }
}

// What all hashes of a key begin with; and verify: the digest of the message (RFC 8391, section 4.1.9), or the verdict
// of a signature that is none by its form.
template <class P> struct XmssBegin : PerJob<XmssBegin<P>, XmssArguments> {
    static GABION_FN uint64_t jobs(const XmssArguments &a) { return a.lanes == nullptr ? 2 : a.n; }
    static GABION_FN void run(const XmssArguments &a, uint32_t key) {
        uint32_t *state = a.states + 16 * static_cast<size_t>(key);
        xmss_state<P>(3, a.keys + 2 * P::BYTES * static_cast<size_t>(key) + P::BYTES, state);
        if (a.lanes == nullptr) {
            xmss_state<P>(4, a.secrets + P::BYTES * static_cast<size_t>(key), state + 8);
        } else {
            const XmssLane &lane = a.lanes[key];
            P::Hash::hash_string(a.input + lane.message, lane.message_length, a.signed_ + 64 * static_cast<size_t>(key));
        }
    }
};

// Where chains begin: PRF_keygen(S_XMSS, SEED || address) (SP 800-208, section 6.2).
template <class P> struct XmssSecrets : PerJob<XmssSecrets<P>, XmssArguments> {
    using Hash = typename P::Hash;
    static GABION_FN uint64_t jobs(const XmssArguments &a) {
        return static_cast<uint64_t>(xmss_leaves(a) + 1) * P::CHAINS;
    }
    static GABION_FN void run(const XmssArguments &a, uint32_t job) {
        const uint32_t i = job / P::CHAINS, chain = job % P::CHAINS;
        const XmssLeaf at = xmss_leaf_of_nodes(a, i);
        const XmssAddress address = xmss_address(at.layer, at.tree, XMSS_OTS, at.leaf, chain, 0);
        const XmssKey<P> key = xmss_key<P>(a, at.key);
        // With a state the key is in it.
        constexpr unsigned FROM = P::HAS_STATE ? 0 : P::PAD + P::WORDS, AT = FROM + P::WORDS;
        uint32_t m[AT + 9];
        typename P::Value value;
        if constexpr (!P::HAS_STATE) {
            xmss_pad<P>(m, 4);
            from_bytes<Hash>(a.secrets + P::BYTES * static_cast<size_t>(at.key), value);
#pragma unroll
            for (unsigned word = 0; word < P::WORDS; word++)
                m[P::PAD + word] = value[word];
        }
#pragma unroll
        for (unsigned word = 0; word < P::WORDS; word++)
            m[FROM + word] = key.seed[word];
#pragma unroll
        for (unsigned word = 0; word < 8; word++)
            m[AT + word] = number<Hash>(address.word[word]);
        m[AT + 8] = Hash::END;
        if constexpr (P::HAS_STATE) {
            Sha256State state;
            load_value(a.states + 16 * static_cast<size_t>(at.key) + 8, state.of);
            Hash::template hash<64, 64>(m, value, state);
        } else {
            Hash::template hash<4 * (AT + 8)>(m, value);
        }
        store_value(xmss_value<P>(a, i, chain), value);
    }
};

// Chains to their ends (RFC 8391, Algorithm 2): from their secrets, or from what a signature has of them (Algorithm 6).
template <class P> struct XmssChains : PerJob<XmssChains<P>, XmssArguments> {
    using Fast = XmssSet<typename P::Hash::Fast, P::BYTES>;
    static GABION_FN uint64_t jobs(const XmssArguments &a) {
        return static_cast<uint64_t>(a.lanes == nullptr ? xmss_leaves(a) + 1 : a.n) * P::CHAINS;
    }
    static GABION_FN void run(const XmssArguments &a, uint32_t job) {
        const uint32_t i = job / P::CHAINS, chain = job % P::CHAINS;
        if (a.lanes != nullptr && a.layer >= a.lanes[i].depth)
            return;
        const XmssLeaf at = xmss_leaf(a, i);
        const XmssAddress address = xmss_address(at.layer, at.tree, XMSS_OTS, at.leaf, chain, 0);
        XmssKey<Fast> key;
        {
            const XmssKey<P> same = xmss_key<P>(a, at.key);
            copy_value(same.seed, key.seed);
            key.state = same.state;
        }
        uint32_t *const place = xmss_value<P>(a, i, chain);
        typename P::Value value;
        uint32_t step = 0;
        if (a.lanes == nullptr)
            load_value(place, value);
        else
            step = of_signature(a, i, chain, value);
        XmssChainPrf<Fast> prf(key, address);
#pragma unroll 1
        for (; step < P::LAST; step++) {
            // Key and mask, which move up as xmss_node's do.
            typename P::Value first, last;
#pragma unroll
            for (unsigned word = 0; word < P::WORDS; word++)
                last[word] = 0;
#pragma unroll 1
            for (uint32_t which = 0; which < 2; which++) {
                copy_value(last, first);
                prf.make(step, which, last);
            }
            f(first, last, value);
        }
        // Ends are public: who verifies comes to them.
        GABION_DECLASSIFY(value, sizeof value);
        store_value(place, value);
    }

  private:
    // F(key, value ^ mask).
    static GABION_FN void f(const typename P::Value &key, const typename P::Value &mask, typename P::Value &value) {
        constexpr unsigned AT = P::PAD + P::WORDS;
        uint32_t m[AT + P::WORDS + 1];
        xmss_pad<P>(m, 0);
#pragma unroll
        for (unsigned word = 0; word < P::WORDS; word++) {
            m[P::PAD + word] = key[word];
            m[AT + word] = value[word] ^ mask[word];
        }
        m[AT + P::WORDS] = P::Hash::END;
        Fast::Hash::template hash<4 * (AT + P::WORDS)>(m, value);
    }

    // The value that a signature has, and after how many steps (Algorithm 5, lines 1 to 12: digits of four bits, and
    // three of the checksum).
    static GABION_FN uint32_t of_signature(const XmssArguments &a, uint32_t op, uint32_t chain, typename P::Value &value) {
        const XmssLane &lane = a.lanes[op];
        const uint64_t layer_length = static_cast<uint64_t>(P::CHAINS + lane.height) * P::BYTES;
        from_bytes<typename P::Hash>(a.input + lane.layers + a.layer * layer_length + P::BYTES * chain, value);
        const uint8_t *bytes = a.signed_ + 64 * static_cast<size_t>(op);
        if (chain < 2 * P::BYTES)
            return digit(bytes, chain, 4);
        return checksum(bytes, P::BYTES, 4) >> (4 * (P::CHAINS - 1 - chain)) & 15;
    }
};

// A level of the trees that compress one-time keys (RFC 8391, Algorithm 8): `level` is how high the children are.
template <class P> struct XmssLTree : PerJob<XmssLTree<P>, XmssArguments> {
    static GABION_FN uint32_t pairs(const XmssArguments &a) { return (((P::CHAINS - 1) >> a.level) + 1) / 2; }
    static GABION_FN uint64_t jobs(const XmssArguments &a) {
        return static_cast<uint64_t>(a.lanes == nullptr ? xmss_leaves(a) + 1 : a.n) * pairs(a);
    }
    static GABION_FN void run(const XmssArguments &a, uint32_t job) {
        const uint32_t i = job / pairs(a), pair = job % pairs(a);
        if (a.lanes != nullptr && a.layer >= a.lanes[i].depth)
            return;
        const XmssLeaf at = xmss_leaf(a, i);
        uint32_t *place = xmss_value<P>(a, i, pair << (a.level + 1));
        typename P::Value left, right;
        load_value(place, left);
        load_value(place + (P::WORDS << a.level), right);
        xmss_node<P>(xmss_key<P>(a, at.key), xmss_address(at.layer, at.tree, XMSS_L_TREE, at.leaf, a.level, pair), left,
                     right, left);
        store_value(place, left);
    }
};

// A level of the tree above leaves (Algorithm 9). The canary's node has itself for a neighbour.
template <class P> struct XmssTree : PerJob<XmssTree<P>, XmssArguments> {
    static GABION_FN uint32_t nodes(const XmssArguments &a) { return xmss_leaves(a) >> (a.level + 1); }
    static GABION_FN uint64_t jobs(const XmssArguments &a) { return static_cast<uint64_t>(nodes(a)) + 1; }
    static GABION_FN void run(const XmssArguments &a, uint32_t node) {
        const bool is_canary = node == nodes(a);
        const uint32_t i = is_canary ? xmss_leaves(a) : node << (a.level + 1);
        const XmssLeaf at = xmss_leaf_of_nodes(a, i);
        uint32_t *place = xmss_value<P>(a, i, 0);
        typename P::Value left, right;
        load_value(place, left);
        load_value(is_canary ? place : xmss_value<P>(a, i + (1u << a.level), 0), right);
        const XmssAddress address = xmss_address(at.layer, at.tree, XMSS_TREE, 0, a.level, at.leaf >> (a.level + 1));
        xmss_node<P>(xmss_key<P>(a, at.key), address, left, right, left);
        store_value(place, left);
    }
};

// Nodes to where they go.
template <class P> struct XmssFinish : PerJob<XmssFinish<P>, XmssArguments> {
    static GABION_FN uint64_t jobs(const XmssArguments &a) { return a.n; }
    static GABION_FN void run(const XmssArguments &a, uint32_t node) {
        typename P::Value value;
        load_value(xmss_value<P>(a, node << a.low, 0), value);
        to_bytes<typename P::Hash>(value, a.out + P::BYTES * static_cast<size_t>(node));
        a.status[node] = status_word(OK, a.generation);
    }
};

// The way up a layer's tree (RFC 8391, Algorithm 13).
template <class P> struct XmssClimb : PerJob<XmssClimb<P>, XmssArguments> {
    static GABION_FN uint64_t jobs(const XmssArguments &a) { return a.n; }
    static GABION_FN void run(const XmssArguments &a, uint32_t op) {
        const XmssLane &lane = a.lanes[op];
        if (a.layer >= lane.depth)
            return;
        const XmssLeaf at = xmss_leaf_of_lane(a, op);
        const XmssKey<P> key = xmss_key<P>(a, at.key);
        const uint64_t layer_length = static_cast<uint64_t>(P::CHAINS + lane.height) * P::BYTES;
        const uint8_t *path = a.input + lane.layers + a.layer * layer_length + P::BYTES * P::CHAINS;
        typename P::Value node, left, right;
        load_value(xmss_value<P>(a, op, 0), node);
#pragma unroll 1
        for (uint32_t level = 0; level < lane.height; level++) {
            from_bytes<typename P::Hash>(path + P::BYTES * level, right);
            const bool is_right = (at.leaf >> level & 1) != 0;
#pragma unroll
            for (unsigned word = 0; word < P::WORDS; word++) {
                left[word] = is_right ? right[word] : node[word];
                right[word] = is_right ? node[word] : right[word];
            }
            xmss_node<P>(key, xmss_address(at.layer, at.tree, XMSS_TREE, 0, level, at.leaf >> (level + 1)), left, right, node);
        }
        to_bytes<typename P::Hash>(node, a.signed_ + 64 * static_cast<size_t>(op));
    }
};

// Whether the root of the highest tree is the key's (Algorithms 14 and 17).
template <class P> struct XmssCheck : PerJob<XmssCheck<P>, XmssArguments> {
    static GABION_FN uint64_t jobs(const XmssArguments &a) { return a.n; }
    static GABION_FN void run(const XmssArguments &a, uint32_t op) {
        typename P::Value root;
        from_bytes<typename P::Hash>(a.signed_ + 64 * static_cast<size_t>(op), root);
        const bool is_right = is_of_bytes<typename P::Hash>(root, a.keys + 2 * P::BYTES * static_cast<size_t>(op));
        a.status[op] = status_word(is_right ? OK : INVALID_SIGNATURE, a.generation);
    }
};

using XmssSha256n24 = XmssSet<WordsSha256<false>, 24>;
using XmssSha256n32 = XmssSet<WordsSha256<false>, 32>;
using XmssSha512n64 = XmssSet<WordsSha512, 64>;
using XmssShake128n32 = XmssSet<WordsShake<RATE_SHAKE128>, 32>;
using XmssShake256n24 = XmssSet<WordsShake<RATE_256>, 24>;
using XmssShake256n32 = XmssSet<WordsShake<RATE_256>, 32>;
using XmssShake256n64 = XmssSet<WordsShake<RATE_256>, 64>;

} // namespace gabion
