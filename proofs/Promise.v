(* The promise of cohorts that last, as mathematics: whoever entered together is equally likely to be anybody's rows.

   A world says whose trail is whose; a trail is all that a person does over an epoch. A reader sees a view. Of a trail
   the view shows a bundle: what of it is out (rows that were withheld, late or rejected are in no bundle).

   Premises: the reader has no reason to tell people of the generation apart before he reads (exchangeable), and what is
   published does not depend on who of them has which trail (swap). That the product has the second is the matter of
   Step.v; the first is what a privacy officer must judge. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype tuple finfun bigop finset fingroup perm.
From mathcomp Require Import ssralg ssrnum rat.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Worlds.
Variables (person trail : finType).

Definition world := {ffun person -> trail}.

(* The world in which everybody has the trail of whom s says. *)
Definition moved (s : {perm person}) (w : world) : world := [ffun p => w (s p)].

Definition within (G : {set person}) (s : {perm person}) := forall p, p \notin G -> s p = p.

Lemma movedK s : cancel (moved s) (moved s^-1).
Proof. by move=> w; apply/ffunP=> p; rewrite !ffunE permKV. Qed.

Lemma movedKV s : cancel (moved s^-1) (moved s).
Proof. by move=> w; apply/ffunP=> p; rewrite !ffunE permK. Qed.

Lemma within_tperm (G : {set person}) p q : p \in G -> q \in G -> within G (tperm p q).
Proof.
move=> pG qG x xG; rewrite tpermD //.
  by apply: contraNneq xG => <-.
by apply: contraNneq xG => <-.
Qed.

Lemma within_inverse (G : {set person}) s : within G s -> within G s^-1.
Proof. by move=> ws p /ws {1}<-; rewrite permK. Qed.

End Worlds.

Section Promise.
Variables (person trail : finType) (bundle : eqType).
Notation world := (world person trail).

(* What the reader thinks of each world before he reads; how likely each is published as the view that he has. *)
Variables (prior release : world -> rat).
(* What is out of a person's trail, in a world. *)
Variable shown : world -> person -> bundle.
(* People who entered together. *)
Variable G : {set person}.

Hypothesis exchangeable : forall s w, within G s -> prior (moved s w) = prior w.
Hypothesis swap : forall s w, within G s -> release w != 0 -> release (moved s w) = release w.
Hypothesis shown_moved : forall s w p, within G s -> release w != 0 -> shown (moved s w) p = shown w (s p).

Definition joint (w : world) := prior w * release w.
Definition mass (event : pred world) := \sum_(w | event w) joint w.
Definition evidence := mass xpredT.
Definition weight p b := mass (fun w => shown w p == b).

Lemma swap_always s w : within G s -> release (moved s w) = release w.
Proof.
move=> ws; have [z|nz] := eqVneq (release w) 0; last exact: swap.
rewrite z; apply/eqP; apply: contraTT isT => nz.
by have := swap (within_inverse ws) nz; rewrite movedK z => e; rewrite -e eqxx in nz.
Qed.

Lemma joint_moved s w : within G s -> joint (moved s w) = joint w.
Proof. by move=> ws; rewrite /joint exchangeable // swap_always. Qed.

(* Of any two of the generation the reader thinks the same. *)
Lemma equally_likely p q b : p \in G -> q \in G -> weight p b = weight q b.
Proof.
move=> pG qG; rewrite /weight /mass.
rewrite (reindex_inj (h := moved (tperm p q))); last exact: can_inj (@movedK _ _ _).
rewrite !(big_mkcond (fun w => shown _ _ == b)) /=; apply: eq_bigr => w _.
rewrite (joint_moved w (within_tperm pG qG)).
have [z|nz] := eqVneq (release w) 0; first by rewrite /joint z mulr0 !if_same.
by rewrite shown_moved //; [rewrite tpermL | exact: within_tperm].
Qed.

(* How often the view shows b among the generation: the same in all worlds that are possible. *)
Definition appears (m : bundle -> nat) :=
  forall w, joint w != 0 -> forall b, #|[set q in G | shown w q == b]| = m b.

(* P(p has b | view) = m b / |G|: of the m b bundles that look like b, each is p's with 1/|G|. *)
Theorem one_in_k m p b : appears m -> p \in G -> #|G|%:R * weight p b = (m b)%:R * evidence.
Proof.
move=> seen pG.
have -> : #|G|%:R * weight p b = \sum_(q in G) weight q b.
  rewrite -sum1_card natr_sum mulr_suml; apply: eq_bigr => q qG.
  by rewrite mul1r (equally_likely b pG qG).
rewrite /weight /mass (exchange_big_dep xpredT) //= mulr_sumr; apply: eq_bigr => w _.
have [->|nz] := eqVneq (joint w) 0; first by rewrite mulr0 big1.
rewrite -(seen w nz b) (eq_bigl (fun q => q \in [set q in G | shown w q == b])); last by move=> q; rewrite inE.
by rewrite sumr_const mulr_natl.
Qed.

Corollary at_most m p b :
  appears m -> p \in G -> evidence != 0 -> weight p b / evidence = (m b)%:R / #|G|%:R.
Proof.
move=> seen pG nz.
have nG : (#|G|%:R : rat) != 0 by rewrite pnatr_eq0 -lt0n; apply/card_gt0P; exists p.
by apply: (mulIf nz); apply: (mulfI nG); rewrite divfK // (one_in_k _ seen pG) mulrA mulrCA divff // mulr1.
Qed.

(* Whoever knows anything of what p's bundle looks like (days, purchases that are out): of those that fit, each is p's
   with the same probability, 1 / how many fit. *)
Theorem one_in_fitting m p (bundles : seq bundle) (fits : pred bundle) b :
  appears m -> p \in G -> uniq bundles -> (forall w, joint w != 0 -> shown w p \in bundles) -> b \in bundles ->
  fits b ->
  (\sum_(u <- bundles | fits u) m u)%:R * weight p b = (m b)%:R * mass (fun w => fits (shown w p)).
Proof.
move=> seen pG ub all_in bB fb.
have nG : (#|G|%:R : rat) != 0 by rewrite pnatr_eq0 -lt0n; apply/card_gt0P; exists p.
have split_mass : mass (fun w => fits (shown w p)) = \sum_(u <- bundles | fits u) weight p u.
  rewrite /weight /mass (exchange_big_dep xpredT) //= big_mkcond /=; apply: eq_bigr => w _.
  have [->|nz] := eqVneq (joint w) 0; first by rewrite big1 //; case: ifP.
  have inB := all_in w nz.
  rewrite (eq_bigl (fun u => (u == shown w p) && fits u)); last by move=> u; rewrite andbC eq_sym.
  rewrite big_mkcondr /= -big_filter.
  have -> : [seq u <- bundles | u == shown w p] = [:: shown w p] by apply: filter_pred1_uniq.
  by rewrite big_cons big_nil addr0; case: ifP.
have whole : #|G|%:R * mass (fun w => fits (shown w p)) = (\sum_(u <- bundles | fits u) m u)%:R * evidence.
  rewrite split_mass big_distrr natr_sum big_distrl; apply: eq_bigr => u _; exact: one_in_k.
by apply: (mulfI nG); rewrite mulrCA (one_in_k _ seen pG) [RHS]mulrCA whole mulrCA.
Qed.

End Promise.

Section Known.
Variables (person trail : finType) (bundle : eqType).
Notation world := (world person trail).
Variables (prior release : world -> rat) (shown : world -> person -> bundle) (G : {set person}).
Hypothesis exchangeable : forall s w, within G s -> prior (moved s w) = prior w.
Hypothesis swap : forall s w, within G s -> release w != 0 -> release (moved s w) = release w.
Hypothesis shown_moved : forall s w p, within G s -> release w != 0 -> shown (moved s w) p = shown w (s p).

(* People whose bundles the reader knows. A world in which they have others has no weight any more. *)
Variables (K : {set person}) (whose : person -> bundle).
Definition release_known w := if [forall q in K, shown w q == whose q] then release w else 0.

(* Each known person takes one candidate, and no more: the theorem again, over those who are left. *)
Theorem one_in_k_less_known m p b :
  appears prior release_known shown (G :\: K) m -> p \in G :\: K ->
  #|G :\: K|%:R * weight prior release_known shown p b = (m b)%:R * evidence prior release_known.
Proof.
have fewer s : within (G :\: K) s -> within G s.
  by move=> ws q qG; apply: ws; rewrite inE negb_and qG orbT.
have possible w : release_known w != 0 -> release w != 0 /\ [forall q in K, shown w q == whose q].
  by rewrite /release_known; case: ifP => // _; rewrite eqxx.
move=> seen pG; apply: one_in_k seen pG => [s w ws|s w ws|s w q ws].
- exact: exchangeable (fewer s ws).
- case/possible=> nz kw; have ws' := fewer s ws.
  rewrite /release_known swap // kw.
  suff -> : [forall q in K, shown (moved s w) q == whose q] by [].
  apply/forall_inP=> q qK; rewrite shown_moved // ws ?inE ?qK //.
  exact: (forall_inP kw).
- by case/possible=> nz _; apply: shown_moved (fewer s ws) nz.
Qed.

End Known.

Section Shuffled.
(* Rows of a group are laid out by a uniform permutation: how many permutations give a layout depends on the multiset
   of the rows alone, not on whose row was which. *)
Variables (T : eqType) (n : nat).
Definition laid (s : {perm 'I_n}) (x : n.-tuple T) : n.-tuple T := [tuple tnth x (s i) | i < n].
Definition layouts (x y : n.-tuple T) := #|[set s : {perm 'I_n} | laid s x == y]|.

Theorem shuffled_by_multiset (x x' y : n.-tuple T) : perm_eq x x' -> layouts x y = layouts x' y.
Proof.
move/tuple_permP=> [t e].
have xt : x = laid t x' by apply: val_inj; rewrite /= e; apply: eq_map => i.
rewrite xt /layouts -(card_imset _ (@mulIg _ t)); apply: eq_card => s.
apply/imsetP/idP => [[r]|].
  rewrite !inE => /eqP <- ->; apply/eqP/eq_from_tnth => i.
  by rewrite !tnth_mktuple permM.
rewrite inE => /eqP <-; exists (s * t^-1)%g; last by rewrite mulgKV.
rewrite inE; apply/eqP/eq_from_tnth => i.
by rewrite !tnth_mktuple -permM mulgKV.
Qed.

End Shuffled.
